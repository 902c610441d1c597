#include "kernel/generation.h"

namespace pumice {

Generation generation_of(const Capabilities& device) {
  const bool matrices = !device.matrix_sizes.empty();
  if (device.is_cpu()) return Generation::unknown;
  switch (device.vendor_id) {
  case vendor::intel:
    if (device.min_subgroup_size == 16) return Generation::intel_xe2;
    return matrices ? Generation::intel_alchemist : Generation::intel_xe;
  case vendor::amd:
    if (device.min_subgroup_size == 64) return Generation::amd_gcn;
    return matrices ? Generation::amd_rdna3 : Generation::amd_rdna;
  case vendor::nvidia:
    return matrices ? Generation::nvidia_turing : Generation::nvidia_maxwell;
  case vendor::qualcomm: // by the first byte of the chip's number
    return device.device_id >> 24 == 6 ? Generation::qualcomm_adreno6xx : Generation::qualcomm_adreno7xx;
  default:
    return Generation::unknown;
  }
}

} // namespace pumice
