#version 460
// An invocation takes whole blocks of a row's logits.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "search/search.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = SEARCH_SLICE_ID) const uint SLICE = 8;
layout(push_constant) uniform Push { SearchParams p; };
READ_BUFFER(uvec4, step_block, SEARCH_STEP);
READ_BUFFER(SearchSlot, slots, SEARCH_STATE);
WRITE_BUFFER(vec4, logits, SEARCH_LOGITS);
WRITE_BUFFER(uint, scratch, SEARCH_SCRATCH);

#include "search/search.glsl"

uint output_row = gl_WorkGroupID.y;
uint first_block = gl_WorkGroupID.x * SLICE;

uint quad_of(uint token) { return (output_row * p.stride + token) >> 2; }
uint columns_of(uint block) { return min(p.vocabulary - block * SEARCH_BLOCK, SEARCH_BLOCK); }

uint largest_of(uint block) {
  const uint quad = quad_of(block * SEARCH_BLOCK), used = columns_of(block);
  uint largest = 0u;
  [[dont_unroll]] for (uint c = 0u; c < SEARCH_BLOCK; c += 4u) {
    const vec4 v = logits[quad + (c >> 2)];
    [[unroll]] for (uint e = 0u; e < 4u; ++e) largest = max(largest, c + e < used ? key_of(v[e]) : 0u);
  }
  return largest;
}

float sum_of(uint block, uint largest) {
  const uint quad = quad_of(block * SEARCH_BLOCK), used = columns_of(block);
  const float top = value_of(largest);
  float sum = 0.0;
  if (largest == 0u) return sum;
  [[dont_unroll]] for (uint c = 0u; c < SEARCH_BLOCK; c += 4u) {
    const vec4 v = logits[quad + (c >> 2)];
    [[unroll]] for (uint e = 0u; e < 4u; ++e) {
      const uint key = key_of(v[e]);
      sum += c + e < used && key != 0u ? exp(value_of(key) - top) : 0.0;
    }
  }
  return sum;
}

void set(uint token, float value) { logits[quad_of(token)][token & 3u] = value; }

// Every invocation reads the whole list and changes only logits of its own blocks: no barrier is needed.
bool is_own(uint token) {
  const uint block = token / SEARCH_BLOCK - first_block; // the difference wraps round below the first block
  return token < p.vocabulary && block < SLICE && block % gl_WorkGroupSize.x == me;
}

void apply_rules(uint slot) {
  const float forbidden = uintBitsToFloat(MINUS_INFINITY), penalty = slots[slot].penalty;
  const uint begin = slots[slot].forbidden, end = begin + slots[slot].penalised;
  if (slots[slot].after_softmax == 0u) {
    for (uint n = begin; n < end; ++n) {
      const uint token = slots[slot].tokens[n];
      if (!is_own(token)) continue;
      const float logit = logits[quad_of(token)][token & 3u];
      set(token, logit < 0.0 ? logit * penalty : logit / penalty);
    }
  }
  for (uint n = 0u; n < begin; ++n) {
    const uint token = slots[slot].tokens[n];
    if (is_own(token)) set(token, forbidden);
  }
  for (uint n = 0u; n < min(slots[slot].ranges, SEARCH_RANGES); ++n) {
    const uint low = slots[slot].bounds[2u * n], high = min(slots[slot].bounds[2u * n + 1u], p.vocabulary);
    for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
      const uint first = (first_block + i) * SEARCH_BLOCK;
      const uint from = max(low, first), to = min(high, first + SEARCH_BLOCK);
      [[dont_unroll]] for (uint token = from; token < to; ++token) set(token, forbidden);
    }
  }
}

void main() {
  if (output_row >= step_block[0].y) return;
  const uint slot = slot_of(output_row);
  const bool after = slots[slot].after_softmax != 0u;
  const bool ruled = slots[slot].forbidden + slots[slot].penalised + slots[slot].ranges != 0u;
  // The rules come after the sums of all blocks of the invocation, or before them.
  if (ruled && !after) apply_rules(slot);
  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
    const uint block = first_block + i;
    if (block >= p.blocks) break;
    const uint largest = largest_of(block);
    scratch[words_of(output_row, SEARCH_MAXIMA) + block] = largest;
    scratch[words_of(output_row, SEARCH_TOPS) + block] = largest;
    scratch[words_of(output_row, SEARCH_SUMS) + block] = floatBitsToUint(sum_of(block, largest));
  }
  if (!ruled || !after) return;
  apply_rules(slot);
  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
    const uint block = first_block + i;
    if (block >= p.blocks) break;
    scratch[words_of(output_row, SEARCH_MAXIMA) + block] = largest_of(block);
  }
}
