#pragma once

#include <cstdint>

#include "kernel/gpu_generation.h"
#include "shaders/common/codes.h"

namespace pumice {

// How much of a product an invocation should hold, so that its compiler neither spills registers nor leaves
// room for too few subgroups. By what compilers say of the kernels: tools/compilers.sh, and the table in
// shaders/README.md. None of this changes a bit of a result.
struct RegisterLimits {
  // Of an invocation, in attention by cooperative matrices. Queries beyond this stay in shared memory.
  uint32_t matrix_sums = 64;
  uint32_t matrix_queries = 64;
  uint32_t matrix_loads = 8;         // 16 bytes of keys, and of values, that are loaded ahead
  uint32_t attention_loads = 4;      // the same of the portable kernel
  uint32_t small_head_queries = 4;   // of a workgroup of it, where a head has at most 32 numbers
  uint32_t tiled_sums = 64;          // of an invocation, in a tiled product
  uint32_t vector_rows = 8;          // of a workgroup, in products of few rows
  uint32_t vector_sums = 32;         // of an invocation, in products of few rows
  uint32_t vector_invocations = 256; // of a workgroup, in products of few rows
};

inline RegisterLimits register_limits(GpuGeneration generation) {
  RegisterLimits limits;
  switch (generation) {
  case GpuGeneration::intel_xe:
  case GpuGeneration::intel_alchemist:
  case GpuGeneration::intel_xe2:
    // A thread has as many registers for 8 lanes as for 16: room for these sums beside the operands.
    limits.matrix_sums = 16;
    limits.matrix_queries = 32;
    limits.matrix_loads = 2;
    limits.small_head_queries = 2; // no loop over such a head's numbers keeps its loads apart
    break;
  case GpuGeneration::amd_gcn:
    limits.tiled_sums = 32; // 64 leave room for one subgroup
    break;
  case GpuGeneration::qualcomm_adreno6xx:
    // With more, hundreds of registers are spilled.
    limits.vector_rows = 2;
    limits.vector_sums = 4;
    limits.vector_invocations = 128;
    break;
  case GpuGeneration::amd_rdna3:
  case GpuGeneration::nvidia_turing:
    limits.attention_loads = 8; // others would spill, keep fewer subgroups, or gain nothing
    break;
  default:
    break;
  }
  return limits;
}

// How codes become numbers in products of few rows: CODES_*. By what compilers make of them
// (shaders/README.md): AMD's and Intel's have conversions of bytes, and NVIDIA's multiprocessors half as many
// lanes for shifts, logic and conversions as for floats.
constexpr uint32_t fastest_codes(GpuGeneration generation) {
  switch (generation) {
  case GpuGeneration::nvidia_maxwell:
  case GpuGeneration::nvidia_turing:
    return CODES_MANTISSA;
  case GpuGeneration::intel_xe:
  case GpuGeneration::intel_alchemist:
  case GpuGeneration::intel_xe2:
  case GpuGeneration::amd_gcn:
  case GpuGeneration::amd_rdna:
  case GpuGeneration::amd_rdna3:
    return CODES_BYTES;
  default:
    return CODES_FIELDS;
  }
}

} // namespace pumice
