// Where chunks of rows are in a step. The whole workgroup calls each function.
#extension GL_EXT_control_flow_attributes : require

shared uint run_breaks;

// The rows of the chunk that begins at `row`.
uint chunk_rows(uint row, uint rows) {
  const uint most = min(CHUNK_ROWS - step_row(row).y % CHUNK_ROWS, rows - row);
  if (ONE_RUN != 0u) return most;
  barrier();
  if (gl_LocalInvocationID.x == 0u) run_breaks = most;
  barrier();
  const uint i = gl_LocalInvocationID.x + 1u;
  if (i < most && !goes_on(row + i)) atomicMin(run_breaks, i);
  barrier();
  return run_breaks;
}

// The first row of the workgroup's chunk, the one with this number; `rows`: there is none.
uint chunk_begin(uint number, uint rows) {
  if (ONE_RUN != 0u) return number == 0u ? 0u : min(number * CHUNK_ROWS - step_row(0u).y % CHUNK_ROWS, rows);
  if (number >= rows) return rows;
  return goes_on(number) && step_row(number).y % CHUNK_ROWS != 0u ? rows : number;
}
