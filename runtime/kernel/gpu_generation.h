#pragma once

#include <array>
#include <string_view>

#include "gpu/capabilities.h"

namespace pumice {

// GPUs whose compilers treat kernels alike: what kernels may hold in registers (kernel/registers.h) and in
// which order their variants are taken (kernel/variant_order.h) depends on it.
enum class GpuGeneration {
  unknown,         // also every CPU driver
  intel_xe,        // without matrix units: Tiger Lake to Meteor Lake's graphics
  intel_alchemist, // matrix units for subgroups of 8
  intel_xe2,       // for subgroups of 16
  amd_gcn,         // subgroups of 64 alone
  amd_rdna,        // RDNA 1 and 2
  amd_rdna3,       // with matrix units
  nvidia_maxwell,  // Maxwell to Volta
  nvidia_turing,   // with matrix units
  qualcomm_adreno6xx,
  qualcomm_adreno7xx, // and newer
};

// In the enum's order.
constexpr std::array<std::string_view, 11> generation_names = {
    "unknown",   "intel_xe",       "intel_alchemist", "intel_xe2",          "amd_gcn",           "amd_rdna",
    "amd_rdna3", "nvidia_maxwell", "nvidia_turing",   "qualcomm_adreno6xx", "qualcomm_adreno7xx"};

inline std::string_view name_of(GpuGeneration generation) {
  return generation_names[static_cast<size_t>(generation)];
}

// By what a device can do rather than by lists of chips, which would never be complete.
GpuGeneration generation_of(const Capabilities& device);

} // namespace pumice
