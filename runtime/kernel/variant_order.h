#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/gpu_generation.h"

namespace pumice {

// The order in which a family's variants are taken on GPUs of a generation where nothing was measured, for
// steps of so many rows and fewer.
struct VariantOrder {
  GpuGeneration generation = GpuGeneration::unknown;
  std::string_view family;
  uint32_t most_rows = 0;
  std::string_view variants; // names with a space between, the fastest first
};

// All that are known. They follow from what the generations' compilers say of the kernels: tools/compilers.sh
// makes them (runtime/kernel/variant_order.def), tests/compilers/variant_cost.h says how.
std::span<const VariantOrder> variant_orders();

// The names of a class of shapes ("matmul q8_0 16 x 3072 x 768"), the fastest first. Empty where nothing is
// known: then the family's own order holds.
std::vector<std::string_view> estimated_order(GpuGeneration generation, std::string_view shape_class);

} // namespace pumice
