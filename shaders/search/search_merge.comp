#version 460
// The continuations of a search, best first; of equal scores those of the first beam, then those of the lowest token. One
// invocation goes through the beams' lists, which are sorted.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "search/search.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { SearchParams p; };
READ_BUFFER(uvec4, step_block, SEARCH_STEP);
READ_BUFFER(SearchSlot, slots, SEARCH_STATE);
READ_BUFFER(uint, scratch, SEARCH_SCRATCH);
WRITE_BUFFER(float, result, SEARCH_RESULT);

#include "search/search.glsl"

const uint MOST_BEAMS = SEARCH_CANDIDATES / 2u; // a search wants two continuations of each

float sum_of(uint output_row, uint n) {
  return slots[slot_of(output_row)].score + uintBitsToFloat(scratch[best_scores(output_row) + n]);
}

void main() {
  const uint output_row = gl_WorkGroupID.x;
  if (output_row >= step_block[0].y) return;
  const uint slot = slot_of(output_row), at = output_row * p.out_stride, columns = SEARCH_RESULT_COLUMNS * p.candidates;
  const uint beams = min(min(slots[slot].beams, MOST_BEAMS), step_block[0].y - output_row);
  for (uint i = me; i < (columns + 31u) / 32u * 32u; i += gl_WorkGroupSize.x) {
    result[at + i] = i < columns && i % 3u == 2u ? uintBitsToFloat(MINUS_INFINITY) : 0.0;
  }
  barrier();
  if (me != 0u || beams == 0u) return;
  uint next[MOST_BEAMS];
  float sums[MOST_BEAMS];
  for (uint b = 0u; b < beams; ++b) {
    next[b] = 0u;
    sums[b] = sum_of(output_row + b, 0u);
  }
  const uint wanted = min(slots[slot].wanted, p.candidates);
  for (uint n = 0u; n < wanted; ++n) {
    uint best = 0u;
    for (uint b = 1u; b < beams; ++b) {
      if (sums[b] > sums[best]) best = b;
    }
    if (floatBitsToUint(sums[best]) == MINUS_INFINITY) break;
    result[at + 3u * n] = float(best);
    result[at + 3u * n + 1u] = float(scratch[best_tokens(output_row + best) + next[best]]);
    result[at + 3u * n + 2u] = sums[best];
    ++next[best];
    sums[best] = next[best] < p.candidates ? sum_of(output_row + best, next[best]) : uintBitsToFloat(MINUS_INFINITY);
  }
}
