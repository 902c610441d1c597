// What a workgroup of the first half of adapters does. The including file has the buffer step_block, the parameters, and
// ROWS.
#ifndef PUMICE_DOWN_WORK_GLSL
#define PUMICE_DOWN_WORK_GLSL
#include "adapter/row_adapter.glsl"

const uint NO_MATRIX = 0xffffffffu;

// Where the matrices begin that the workgroup's rows are multiplied by, in floats; NO_MATRIX for rows that are not there, or
// whose adapter has nothing for these sums. Returns whether it is the same one for all of them.
bool find_matrices(uint first_row, uint rows, out uint begin[ROWS]) {
  const uint tile_floats = ((p.columns + 31u) & ~31u) * ADAPTER_RANKS;
  const uint tiles = p.rank / ADAPTER_RANKS;
  const uint rank = gl_WorkGroupID.y % tiles * ADAPTER_RANKS;
  bool same = true;
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    const uvec4 adapter = first_row + m < rows ? row_adapter(first_row + m) : uvec4(0);
    const bool has = adapter.x != 0u && rank < adapter.z;
    begin[m] = has ? ((adapter.x - 1u) * p.members * tiles + gl_WorkGroupID.y) * tile_floats : NO_MATRIX;
    same = same && begin[m] == begin[0];
  }
  return same;
}

#endif
