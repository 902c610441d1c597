// What the kernels of a search share.
#include "sampling/sampling.glsl"

const uint MINUS_INFINITY = 0xff800000u;
uint me = gl_LocalInvocationID.x;

// The sequence of an output row: rows of the step block are not yet those of the next step.
uint slot_of(uint output_row) {
  const uint row = step_block[STEP_HEADER_QUADS + p.capacity + output_row].x;
  return min(step_block[STEP_HEADER_QUADS + row].z, p.sequences - 1u);
}
uint words_of(uint output_row, uint kind) { return output_row * p.row_words + kind * p.padded; }
uint best_tokens(uint output_row) { return words_of(output_row, SEARCH_WORDS_PER_BLOCK); }
uint best_scores(uint output_row) { return best_tokens(output_row) + p.candidates; }
