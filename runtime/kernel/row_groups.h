#pragma once

#include <algorithm>
#include <array>

#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"

namespace pumice {

// The number of workgroups for one row of a result whose columns do not depend on each other. An invocation
// works on quads of columns, on a GPU on four of them.
inline uint32_t row_groups(const DeviceProfile& profile, const ActivationRef& result) {
  const uint32_t quads = result.padded_columns() / 4;
  return profile.cpu ? 1 : std::max(1u, quads / (profile.workgroup * 4));
}

// Along an axis, on every device.
inline constexpr uint32_t most_workgroups = 65535;

// Workgroups for so many invocations of each row: along y, and further layers of them along z where those are
// too many.
inline std::array<uint32_t, 3> layers_of_groups(uint32_t rows, uint64_t invocations, uint32_t workgroup) {
  const uint64_t all = std::max<uint64_t>((invocations + workgroup - 1) / workgroup, 1);
  const uint64_t along = std::min<uint64_t>(all, most_workgroups);
  return {rows, static_cast<uint32_t>(along), static_cast<uint32_t>((all + along - 1) / along)};
}

} // namespace pumice
