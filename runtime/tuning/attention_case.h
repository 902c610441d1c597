#pragma once

#include "io/tensor_type.h"
#include <optional>

#include "tuning/kernel_case.h"

namespace pumice {

// Attention with its keys and values in a cache, for checking its kernels: with rotary positions, or of an
// encoder without.
struct AttentionCase {
  CacheType cache = CacheType::f16;
  uint32_t heads = 1, kv_heads = 1, head_dim = 64;
  uint32_t past = 0; // positions that are in the cache already
  uint32_t rows = 1;
  // A product of such weights makes the queries, keys and values; empty: they are the input.
  std::optional<TensorType> projected;
  bool both_ways = false; // an encoder's: each row sees all rows, and there is nothing before them

  std::string name() const;
  std::unique_ptr<KernelCase> make() const;
};

} // namespace pumice
