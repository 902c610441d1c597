#pragma once

#include "kernel/device_profile.h"
#include "shaders/common/load.h"

namespace pumice {

// LOAD_*: how kernels of the tier cpu8 load what they multiply.
inline uint32_t fastest_load(const DeviceProfile& profile) {
  if (profile.uniform_loads) return LOAD_UNIFORM;
  return profile.texel_loads ? LOAD_TEXEL : LOAD_LANE;
}

} // namespace pumice
