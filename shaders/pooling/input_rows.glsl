// The rows of an input in the step. The including kernel has `step_block` and `p.capacity`.

// Rows of the step from `first` to the end of the input that it is of; none where there is no such row.
uint rows_from(uint first) {
  const uint tokens = step_block[0][ROWS_TOKENS];
  if (first >= tokens) return 0u;
  const uint position = step_block[STEP_HEADER_QUADS + first].y;
  const uint end = step_block[STEP_HEADER_QUADS + p.capacity + first].w;
  return end > position ? min(end - position, tokens - first) : 0u;
}
