#pragma once

#include <cstdint>

namespace pumice {

// How kernels are shaped for a device. Chosen once per device (kernel/probe.h measures what properties do not
// tell); everything that plans for the device reads it and nothing else.
struct KernelStyle {
  // A subgroup is one 8-lane vector of a CPU: workgroups of eight, a lane to a row, no shared memory.
  bool lane8 = false;
  // Loads from an address that is the same in all lanes run at memory speed; loads by lane do not.
  bool uniform_loads = false;
  // Invocations of an ordinary workgroup.
  uint32_t workgroup = 64;
  // Workgroups that keep the device busy; smaller grids are cut finer.
  uint32_t busy_groups = 256;

  // Dwords that lie side by side for one lane of a packed weight tile.
  uint32_t weight_chunk() const { return lane8 && uniform_loads ? 1 : 4; }
};

} // namespace pumice
