#include "kernel/generation.h"

namespace pumice {

Generation generation_of(const Capabilities& device) {
  constexpr uint32_t amd = 0x1002, intel = 0x8086, nvidia = 0x10de, qualcomm = 0x5143;
  const bool matrices = !device.matrix_sizes.empty();
  if (device.is_cpu()) return Generation::unknown;
  switch (device.vendor_id) {
  case intel:
    if (device.min_subgroup_size == 16) return Generation::intel_xe2;
    return matrices ? Generation::intel_alchemist : Generation::intel_xe;
  case amd:
    if (device.min_subgroup_size == 64) return Generation::amd_gcn;
    return matrices ? Generation::amd_rdna3 : Generation::amd_rdna;
  case nvidia:
    return matrices ? Generation::nvidia_turing : Generation::nvidia_maxwell;
  case qualcomm: // by the first byte of the chip's number
    return device.device_id >> 24 == 6 ? Generation::qualcomm_adreno6xx : Generation::qualcomm_adreno7xx;
  default:
    return Generation::unknown;
  }
}

} // namespace pumice
