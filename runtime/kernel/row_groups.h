#pragma once

#include <algorithm>

#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"

namespace pumice {

// The number of workgroups for one row of a result whose columns do not depend on each other. An invocation
// works on quads of columns, on a GPU on four of them.
inline uint32_t row_groups(const DeviceProfile& profile, const ActivationRef& result) {
  const uint32_t quads = result.padded_columns() / 4;
  return profile.cpu ? 1 : std::max(1u, quads / (profile.workgroup * 4));
}

} // namespace pumice
