// The adapter of a row. The including file has the buffer step_block and the parameters rows_kind, details and adapters.
#ifndef PUMICE_ROW_ADAPTER_GLSL
#define PUMICE_ROW_ADAPTER_GLSL

// x = the adapter's place + 1, or 0 for none, y = its scale, as bits, z = its largest rank.
uvec4 row_adapter(uint row) {
  const uint of_step = p.rows_kind == ROWS_OUTPUTS ? step_block[p.details + row].x : row;
  return step_block[p.adapters + step_block[STEP_HEADER_QUADS + of_step].z];
}

#endif
