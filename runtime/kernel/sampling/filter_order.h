#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice {

// The order of filters as SamplingParams has it: the filters' numbers (sampling.params.h), four bits each,
// the first in the lowest, and these. 0 is the usual order.
inline constexpr uint32_t order_given = 1u << 31;
inline constexpr uint32_t order_without_penalties = 1u << 30;
inline constexpr uint32_t order_without_dry = 1u << 29;
inline constexpr uint32_t order_filters = (1u << 28) - 1;
inline constexpr uint32_t usual_filter_order = 0x7654321;

// Whether it is such a number: each filter is there once at most.
bool is_filter_order(uint32_t order);

// The usual one, in llama.cpp's names.
inline constexpr std::string_view usual_samplers =
    "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";

// Samplers of these names, in their order; one that is not among them does nothing. Penalties and DRY can
// only come before all others. Errors: invalid_argument.
Result<uint32_t> filter_order(std::span<const std::string> samplers);
// The same of a list with semicolons, or of llama.cpp's letters, such as "kpt".
Result<uint32_t> filter_order(const std::string& samplers);

} // namespace pumice
