#include "kernel/variant_order.h"

#include <array>

#include "kernel/choices.h"

namespace pumice {

namespace {

#define VARIANT_ORDER(generation, family, most_rows, variants)                                               \
  VariantOrder{GpuGeneration::generation, #family, most_rows, variants},
constexpr std::array orders = {
#include "kernel/variant_order.def"
};
#undef VARIANT_ORDER

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const size_t end = text.find(' ');
    found.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return found;
}

} // namespace

std::span<const VariantOrder> variant_orders() {
  return orders;
}

std::vector<std::string_view> estimated_order(GpuGeneration generation, std::string_view shape_class) {
  if (generation == GpuGeneration::unknown) return {};
  const ClassName name = divide_class(shape_class);
  for (const VariantOrder& order : orders) {
    if (order.generation != generation || order.family != name.family()) continue;
    if (name.rows <= order.most_rows) return words(order.variants);
  }
  return {};
}

} // namespace pumice
