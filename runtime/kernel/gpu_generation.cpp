#include "kernel/gpu_generation.h"

namespace pumice {

GpuGeneration generation_of(const Capabilities& device) {
  const bool matrices = !device.matrix_sizes.empty();
  if (device.is_cpu()) return GpuGeneration::unknown;
  switch (device.vendor_id) {
  case vendor::intel:
    if (device.min_subgroup_size == 16) return GpuGeneration::intel_xe2;
    return matrices ? GpuGeneration::intel_alchemist : GpuGeneration::intel_xe;
  case vendor::amd:
    if (device.min_subgroup_size == 64) return GpuGeneration::amd_gcn;
    return matrices ? GpuGeneration::amd_rdna3 : GpuGeneration::amd_rdna;
  case vendor::nvidia:
    return matrices ? GpuGeneration::nvidia_turing : GpuGeneration::nvidia_maxwell;
  case vendor::qualcomm: // by the first byte of the chip's number
    return device.device_id >> 24 == 6 ? GpuGeneration::qualcomm_adreno6xx
                                       : GpuGeneration::qualcomm_adreno7xx;
  default:
    return GpuGeneration::unknown;
  }
}

} // namespace pumice
