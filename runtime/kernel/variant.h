#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/device_profile.h"
#include "kernel/lowering.h"

namespace pumice {

// One way in which a kernel family does its work. Args say what is to be done.
template <class Args>
struct KernelVariant {
  std::string_view name;
  std::string_view summary; // for people, a sentence: what it is, and on which devices it runs
  bool (*runs)(const DeviceProfile& profile, const Args& args); // whether it can do that on such a device
  Status (*lower)(Lowering& lowering, const Args& args);
  // What it multiplies is rounded to fewer than 32 bits: only taken where it was measured or is demanded.
  bool rounds = false;
};

// The variant that the profile demands, if it runs; else the one that was measured to be the fastest for such
// shapes; else the first that runs, was not blocked and does not round. The last of a family's variants, the
// plain one, always does. The shape class begins with the family's name.
template <class Args>
const KernelVariant<Args>& choose_variant(std::span<const KernelVariant<Args>* const> variants,
                                          const DeviceProfile& profile, const Args& args,
                                          const std::string& shape_class) {
  const auto find = [&](std::string_view name) {
    const auto at = std::find_if(variants.begin(), variants.end(), [&](const KernelVariant<Args>* variant) {
      return variant->name == name && variant->runs(profile, args);
    });
    return at == variants.end() ? nullptr : *at;
  };
  const auto blocked = [&](std::string_view name) {
    return profile.blocklist && profile.blocklist->contains(blocklist_key(shape_class, name));
  };
  if (const KernelVariant<Args>* forced = find(profile.forced)) return *forced;
  if (profile.choices) {
    const auto choice = profile.choices->find(shape_class);
    const KernelVariant<Args>* measured = choice == profile.choices->end() ? nullptr : find(choice->second);
    if (measured && !blocked(measured->name)) return *measured;
  }
  for (const KernelVariant<Args>* variant : variants) {
    if (!variant->rounds && variant->runs(profile, args) && !blocked(variant->name)) return *variant;
  }
  return *variants.back();
}

// Lowers to the variant chosen as above, and lets the plan know what it was chosen from.
template <class Args>
Status lower_variant(Lowering& lowering, std::span<const KernelVariant<Args>* const> variants,
                     const Args& args, const std::string& shape_class) {
  const KernelVariant<Args>& chosen = choose_variant(variants, lowering.profile(), args, shape_class);
  VariantChoice choice{shape_class, {}, std::string(chosen.name)};
  for (const KernelVariant<Args>* variant : variants) {
    if (variant->runs(lowering.profile(), args)) choice.variants.emplace_back(variant->name);
  }
  lowering.begin_choice(std::move(choice));
  const Status status = chosen.lower(lowering, args);
  lowering.end_choice();
  return status;
}

// Of a family's variants, for FamilyRegistration: list_variants<matmul_variants>.
template <auto variants>
std::vector<VariantSummary> list_variants() {
  std::vector<VariantSummary> list;
  for (const auto* variant : variants()) list.push_back({{}, variant->name, variant->summary});
  return list;
}

} // namespace pumice
