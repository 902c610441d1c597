#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/matrix_shape.h"
#include "kernel/choices.h"

namespace pumice {

// How kernels are shaped for a device. Chosen once per device (kernel/probe/probe.h measures what properties
// do not tell); everything that plans for the device reads it and nothing else.
struct DeviceProfile {
  // A subgroup is one 8-lane vector of a CPU: workgroups of eight, a lane to a row, no shared memory.
  bool cpu8 = false;
  // Loads from an address that is the same in all lanes run at memory speed; loads by lane do not.
  bool uniform_loads = false;
  // Invocations of an ordinary workgroup.
  uint32_t workgroup = 64;
  // That a CPU driver has for workgroups; 0: this is no CPU.
  uint32_t threads = 0;
  // Bytes that a workgroup can share.
  uint32_t shared_bytes = 16384;
  // Workgroups that keep the device busy; smaller grids are cut finer.
  uint32_t busy_groups = 256;

  // Invocations of every full subgroup, where kernels may shuffle among them; 0: they may not.
  uint32_t subgroup = 0;
  // Of the tiers that the device has (gpu/kernel_table.h).
  bool dot = false;
  std::vector<MatrixShape> matrix_shapes; // tier cm; empty without it
  bool cm2 = false;
  uint32_t cm2_workgroup =
      0; // invocations of a workgroup that multiplies matrices together; 0: a subgroup does

  // A variant to be used wherever it runs, whatever was measured; empty: none.
  std::string forced;
  // What was measured on this device; null: every family's own order.
  std::shared_ptr<const Choices> choices;
  // What was found to be wrong on it; null: nothing.
  std::shared_ptr<const Blocklist> blocklist;

  // Dwords that lie side by side for one lane of a packed weight tile.
  uint32_t weight_chunk() const { return cpu8 && uniform_loads ? 1 : 4; }
};

} // namespace pumice
