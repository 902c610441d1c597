#pragma once

#include "kernel/matmul/matmul.h"

namespace pumice {

// For CPU drivers that run a subgroup as one vector of 8 lanes: sums stay in registers.
extern const KernelVariant<MatmulArgs> matmul_cpu8;
// For few rows, where subgroups can shuffle: a subgroup's lanes share the columns of several tiles.
extern const KernelVariant<MatmulArgs> matmul_subgroup;
// For many rows: tiles in shared memory.
extern const KernelVariant<MatmulArgs> matmul_tiled;
// In integers, with x rounded to 8 bits: results differ from the exact product by about half a percent. It
// runs only where it is asked for by name or was chosen by measuring; the order of preference never takes it.
extern const KernelVariant<MatmulArgs> matmul_dot;
// For any device: a workgroup's invocations share the columns of eight weight rows.
extern const KernelVariant<MatmulArgs> matmul_portable;
// For many rows on devices with cooperative matrices of 16-bit floats: of the device's sizes (cm), or of
// freely chosen sizes (cm2).
extern const KernelVariant<MatmulArgs> matmul_cm;
extern const KernelVariant<MatmulArgs> matmul_cm2;
// As cm, for matrices with so few rows that cores are left idle: workgroups share k, a launch adds up.
extern const KernelVariant<MatmulArgs> matmul_cm_split;

// What all variants pass to their kernels, and the launch's cost; the groups are left to them.
struct MatmulParams;
MatmulParams matmul_params(const MatmulArgs& args);
uint32_t matmul_epilogue(const MatmulArgs& args);  // EPILOGUE_* bits
uint32_t matmul_rows_from(const MatmulArgs& args); // MATMUL_ROWS_*
uint32_t rows_each(const MatmulArgs& args);        // rows of x to a row of the step
void bind_matmul(Dispatch& dispatch, const MatmulArgs& args);
void estimate_matmul(Dispatch& dispatch, const MatmulArgs& args);

// The work to divide: blocks of rows, and tiles for each block.
struct MatmulExtent {
  uint32_t rows = 0; // of a block
  uint32_t tiles = 0;
  uint32_t blocks = 0;

  // Workgroups of so many rows. A routed product's blocks must be divided without a rest.
  uint32_t groups(uint32_t group_rows) const { return blocks * ((rows + group_rows - 1) / group_rows); }
  // Rows of a workgroup, at most so many, where workgroups share all evenly: few are computed past the last
  // one.
  uint32_t even_share(uint32_t most) const {
    const uint32_t shares = (rows + most - 1) / most;
    return (rows + shares - 1) / shares;
  }
};
MatmulExtent matmul_extent(const MatmulArgs& args);

// How the variants vector and dot divide a product. Both use shaders/matmul/subgroup_slices.glsl.
struct SubgroupSlices {
  uint32_t rows = 1; // of a workgroup
  uint32_t tiles = 1;
  uint32_t invocations = 0;
};
bool has_subgroup_slices(const DeviceProfile& profile, const MatmulArgs& args);
// Devices that have room for less beside the codes: by what Intel's compiler spills.
inline bool has_few_registers(const DeviceProfile& profile) {
  return profile.registers.matrix_sums < 64;
}
// `most_tiles`: the tiles that an invocation has registers for.
SubgroupSlices subgroup_slices(const DeviceProfile& profile, const MatmulArgs& args, uint32_t most_tiles);
Dispatch subgroup_slices_dispatch(const DeviceProfile& profile, const MatmulArgs& args,
                                  const SubgroupSlices& shape);

} // namespace pumice
