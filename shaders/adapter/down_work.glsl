// What the first half of adapters has for a row. The including file has the buffer step_block, the parameters, and the
// constant ADAPTER_NUMBERS.
#ifndef PUMICE_DOWN_WORK_GLSL
#define PUMICE_DOWN_WORK_GLSL
#include "adapter/numbers.glsl"
#include "adapter/row_adapter.glsl"

const uint NO_TILE = 0xffffffffu;

// Where the workgroup's tile of a row's adapter begins, in quads of dwords; NO_TILE if it has no adapter, or one with nothing
// for these sums.
uint tile_of(uint row) {
  const uint tile_quads = 2u + ((p.columns + 31u) & ~31u) * 2u / NUMBERS_OF_DWORD; // the scales, and the columns
  const uint tiles = p.rank / ADAPTER_RANKS;
  const uint rank = gl_WorkGroupID.y % tiles * ADAPTER_RANKS;
  const uvec4 adapter = row_adapter(row);
  if (adapter.x == 0u || rank >= adapter.z) return NO_TILE;
  return ((adapter.x - 1u) * p.members * tiles + gl_WorkGroupID.y) * tile_quads;
}

#endif
