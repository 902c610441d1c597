// What a workgroup works on: ROWS neighbouring rows of x, or, where ROUTED, ROWS slots of a block, which have chosen the same
// expert, times that expert's matrix.
uint rows;         // of the step, where not routed
uint first_slot;   // where the workgroup's slots begin, where routed
uint tile0;        // its first tile, counted within this segment of the weight
uint column_tile0; // and within the result

// False if there is nothing to do.
bool find_work() {
  tile0 = gl_WorkGroupID.y * TILES;
  if (ROUTED != MATMUL_ROWS_ROUTED) {
    column_tile0 = p.first_tile + tile0;
    rows = step_block[0][p.rows_kind];
    return gl_WorkGroupID.x * ROWS < rows;
  }
  const uint first = gl_WorkGroupID.x * ROWS, number = first >> p.block_shift;
  if (number >= expert_blocks[0]) return false;
  const uint expert = expert_blocks[1u + number + (number << p.block_shift)];
  first_slot = 2u + number + first;
  column_tile0 = tile0;
  tile0 += expert * p.expert_tiles - p.first_tile; // wraps around before the segment
  return expert_blocks[first_slot] != MATMUL_NOTHING && (tile0 < p.tiles || 0u - tile0 < TILES);
}

// Whether the workgroup's tile t is one of the matrix, and of this segment.
bool has_tile(uint t) {
  return tile0 + t < p.tiles && (ROUTED != MATMUL_ROWS_ROUTED || column_tile0 + t < p.row_tiles);
}

// The row of the result for the m-th sums, or MATMUL_NOTHING.
uint result_row(uint m) {
  if (ROUTED == MATMUL_ROWS_ROUTED) return expert_blocks[first_slot + m];
  const uint row = gl_WorkGroupID.x * ROWS + m;
  return row < rows ? row : MATMUL_NOTHING;
}

uint selected_row(uint row) {
  if (ROUTED != MATMUL_ROWS_SELECTED) return row;
  return min(step_block[p.details + row].x, step_block[0][ROWS_TOKENS] - 1u);
}

// The row of x for the m-th sums. Rows past the end repeat another row, so no load needs a guard.
uint x_row(uint m) {
  if (ROUTED != MATMUL_ROWS_ROUTED) {
    return selected_row(min(gl_WorkGroupID.x * ROWS + m, rows - 1u));
  }
  const uint slot = result_row(m);
  return (slot == MATMUL_NOTHING ? result_row(0u) : slot) / p.slots_per_row;
}
