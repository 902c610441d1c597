#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "tuning/kernel_case.h"

namespace pumice {

// A kernel variant of a plan, and small cases that it computes in milliseconds.
struct SmallCase {
  std::string variant;               // empty: the family has none
  bool plain = false;                // nothing can replace it
  std::vector<KernelCaseName> cases; // the first that the variant can run is enough
  double flops = 0;                  // of the plans' launches that it stands for

  std::string key() const; // "matmul cpu8: Q8_0, 1 row, 40 x 416"
};

// Those for the products, attention, recurrences and norms of plans, one for each variant and type of
// numbers: that of the first plan that takes it. Kernels without variants come first, because plans compile
// the same; then the most work.
std::vector<SmallCase> small_cases(std::span<const Plan> plans);

} // namespace pumice
