#pragma once

#include <vector>

#include "io/tensor_type.h"
#include "kernel/cache_layout.h"
#include "kernel/norm/norm.h"

// Cases of the most important kernels. `pumice bench --ops` measures them, and the tests compare them with
// the reference, so that what is measured is also known to be right.
namespace timed_cases {

// x [rows, k] times the transpose of a weight [n, k].
struct Product {
  pumice::TensorType type;
  uint32_t rows = 1, n = 0, k = 0;
  // Too large to compare with the reference. A smaller case has the same type and number of rows.
  bool only_timed = false;
};

inline std::vector<Product> products() {
  std::vector<Product> cases;
  for (const pumice::TensorTypeInfo& info : pumice::tensor_types()) {
    for (uint32_t rows : {1u, 8u, 128u}) {
      cases.push_back({info.type, rows, 768, 768});
      cases.push_back({info.type, rows, 4096, 4096, true});
    }
  }
  return cases;
}

// Rows of one sequence, the first one at `position`. Each attends to its own position and all before it.
struct Attention {
  pumice::CacheType type;
  uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  uint32_t rows = 1, position = 0;
  bool only_timed = false; // as in Product
};

inline std::vector<Attention> attentions() {
  std::vector<Attention> cases;
  for (pumice::CacheType type :
       {pumice::CacheType::f32, pumice::CacheType::f16, pumice::CacheType::q8_0, pumice::CacheType::q4_0}) {
    cases.push_back({type, 12, 12, 64, 1, 1023});
    cases.push_back({type, 32, 8, 128, 1, 1023});
    cases.push_back({type, 32, 8, 128, 16, 40});
    cases.push_back({type, 32, 8, 128, 128, 0, true});
    cases.push_back({type, 32, 8, 128, 64, 1024, true});
  }
  return cases;
}

// Rows of x [rows, columns], each divided by its size.
struct Norm {
  pumice::NormKind kind;
  uint32_t rows = 1, columns = 0;
};

inline std::vector<Norm> norms() {
  std::vector<Norm> cases;
  for (pumice::NormKind kind : {pumice::NormKind::rms, pumice::NormKind::layer}) {
    for (uint32_t rows : {1u, 8u, 128u}) {
      cases.push_back({kind, rows, 768});
      cases.push_back({kind, rows, 4096});
    }
  }
  return cases;
}

} // namespace timed_cases
