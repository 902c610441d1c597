#pragma once

#include "io/tensor_type.h"
#include "tuning/kernel_case.h"

namespace pumice {

// A mixture of experts, for checking its products, which are routed, and the kernels around them. The
// router's logits are the first numbers of each row.
struct ExpertsCase {
  TensorType type = TensorType::f32;
  uint32_t rows = 1;
  uint32_t count = 3, used = 2; // of experts
  uint32_t hidden = 64;         // of an expert
  uint32_t columns = 96;

  std::string name() const;
  std::unique_ptr<KernelCase> make() const;
};

// One whose matrices have whole blocks of the type, and whose products take about `block_slots` slots of an
// expert together (MatmulRouting::block_slots).
ExpertsCase experts_case(TensorType type, uint32_t block_slots);

} // namespace pumice
