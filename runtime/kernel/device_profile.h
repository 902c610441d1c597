#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/matrix_shape.h"
#include "io/tensor_type.h"
#include "kernel/choices.h"
#include "kernel/device_speed.h"
#include "kernel/gpu_generation.h"
#include "kernel/registers.h"

namespace pumice {

// What the choice and the shape of kernels depend on. It is made once per device, from the device's
// properties and from short measurements (kernel/probe/probe.h). Code that plans for the device reads only
// this.
struct DeviceProfile {
  // A CPU driver: a thread runs a workgroup from its beginning to its end. Kernels then have workgroups of
  // eight invocations and few of them, and a row's bits do not depend on how many rows a step has.
  bool cpu = false;
  // A CPU driver that runs a subgroup as one vector of 8 lanes. Kernels of the tier cpu8 have one lane for
  // each row, and use no shared memory.
  bool cpu8 = false;
  // True where loads from an address that all lanes share run at memory speed, and loads by lane are slower.
  bool uniform_loads = false;
  // True where such loads of eight 16-bit floats side by side are faster than of dwords with two of a row
  // each (tier half8).
  bool half_loads = false;
  // True where lanes load texels much faster than they load from storage buffers, and uniform loads are slow.
  bool texel_loads = false;
  // Vectors of 8 floats that the processor's registers hold (cpu8). Sums beyond them go through memory.
  uint32_t vector_registers = 32;
  // Invocations of an ordinary workgroup.
  uint32_t workgroup = 64;
  // Threads on which a CPU driver runs workgroups; 0: the device is not a CPU, or they are not known.
  uint32_t threads = 0;
  // Invocations of a workgroup at most. Every device allows as many as stand here.
  uint32_t most_invocations = 128;
  // Bytes of shared memory of one workgroup.
  uint32_t shared_bytes = 16384;
  // Cores that take workgroups; 0: not known.
  uint32_t cores = 0;
  // Storage buffers of one kernel. Every device allows as many as stand here.
  uint32_t storage_buffers = 8;
  // Bytes that one binding of a buffer covers at most. Every device allows as many as stand here.
  uint64_t range_bytes = uint64_t{128} << 20;
  // The number of workgroups that keeps the device busy. Work of fewer workgroups is divided further.
  uint32_t busy_groups = 256;

  // Invocations of a full subgroup, where kernels may use shuffles; 0: they may not.
  uint32_t subgroup = 0;
  GpuGeneration generation = GpuGeneration::unknown;
  RegisterLimits registers;
  // The optional tiers (gpu/kernel_table.h) that the device has.
  bool dot = false;                       // tier dot: integer dot products
  std::vector<MatrixShape> matrix_shapes; // tier cm: sizes of cooperative matrices; empty without the tier
  bool cm2 = false;                       // tier cm2: cooperative matrices of freely chosen sizes
  // Invocations of a workgroup whose subgroups multiply one matrix together (cm2); 0: each subgroup has its
  // own.
  uint32_t cm2_workgroup = 0;

  // What the times of launches are predicted from.
  DeviceSpeed speed;

  // The name of a variant that is used wherever it runs, even if another was measured to be faster; empty:
  // none.
  std::string forced;
  bool repeats = false; // launches that repeat one are made again: each choice is measured alone
  // The fastest variants, as measured on this device; null: the order of kernel/variant_order.h decides.
  std::shared_ptr<const Choices> choices;
  // Variants that are not used on this device; null: none.
  std::shared_ptr<const Blocklist> blocklist;

  // Consecutive bytes of one lane (one row) in a packed weight tile, see kernel/weight_packing.h.
  uint32_t weight_lane_bytes(TensorType type) const {
    if (!cpu8 || !uniform_loads) return 16;
    return half_loads && type == TensorType::f16 ? 2 : 4;
  }
};

} // namespace pumice
