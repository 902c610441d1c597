#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernel/style.h"

namespace pumice {

class Lowering;

// One way in which a kernel family does its work. Args say what is to be done.
template <class Args>
struct KernelVariant {
  std::string_view name;
  bool (*runs)(const KernelStyle& style, const Args& args); // whether it can do that on such a device
  Status (*lower)(Lowering& lowering, const Args& args);
};

// The variant that the style demands, if it runs; else the one that was measured to be the fastest for such
// shapes; else the first that runs. The last of a family's variants always does.
template <class Args>
const KernelVariant<Args>& choose_variant(std::span<const KernelVariant<Args>* const> variants,
                                          const KernelStyle& style, const Args& args,
                                          const std::string& shape_class) {
  const auto find = [&](std::string_view name) {
    const auto at = std::find_if(variants.begin(), variants.end(), [&](const KernelVariant<Args>* variant) {
      return variant->name == name && variant->runs(style, args);
    });
    return at == variants.end() ? nullptr : *at;
  };
  if (const KernelVariant<Args>* forced = find(style.forced)) return *forced;
  if (style.choices) {
    const auto choice = style.choices->find(shape_class);
    const KernelVariant<Args>* measured = choice == style.choices->end() ? nullptr : find(choice->second);
    if (measured) return *measured;
  }
  for (const KernelVariant<Args>* variant : variants) {
    if (variant->runs(style, args)) return *variant;
  }
  return *variants.back();
}

} // namespace pumice
