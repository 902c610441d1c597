#pragma once

#include <cstdint>

#include "gpu/capabilities.h"

namespace pumice {

// How much of a product an invocation should hold, so that its compiler neither spills registers nor leaves
// room for too few subgroups. By what compilers say of the kernels: tools/compilers.sh, and the table in
// shaders/README.md. None of this changes a bit of a result.
struct RegisterLimits {
  uint32_t matrix_sums = UINT32_MAX; // of an invocation, in attention by cooperative matrices
  uint32_t tiled_sums = 64;          // of an invocation, in a tiled product
  uint32_t vector_rows = 8;          // of a workgroup, in products of few rows
};

inline RegisterLimits register_limits(const Capabilities& device) {
  constexpr uint32_t amd = 0x1002, qualcomm = 0x5143, intel = 0x8086;
  RegisterLimits limits;
  // A thread has as many registers for 8 lanes as for 16: room for these sums beside the operands.
  if (device.vendor_id == intel) limits.matrix_sums = 16;
  // Before RDNA, whose subgroups can be narrower: 64 sums leave room for one subgroup.
  if (device.vendor_id == amd && device.min_subgroup_size == 64) limits.tiled_sums = 32;
  // Adreno 6xx, by the first byte of the chip's number: with more rows hundreds of registers are spilled.
  if (device.vendor_id == qualcomm && device.device_id >> 24 == 6) limits.vector_rows = 2;
  return limits;
}

} // namespace pumice
