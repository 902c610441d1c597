#version 460
// A workgroup takes the best tokens of one output row, by the blocks' largest keys.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "search/search.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { SearchParams p; };
READ_BUFFER(uvec4, step_block, SEARCH_STEP);
READ_BUFFER(SearchSlot, slots, SEARCH_STATE);
WRITE_BUFFER(float, logits, SEARCH_LOGITS);
WRITE_BUFFER(uint, scratch, SEARCH_SCRATCH);

#include "search/search.glsl"

const uint WIDTH = gl_WorkGroupSize.x;
// Some drivers end a shader's loops after 65,535 passes in all, and these loops read the blocks many times.
const uint AT_ONCE = 8;
shared uvec2 pairs[WIDTH];

uint output_row = gl_WorkGroupID.x;
uint maxima = words_of(output_row, SEARCH_MAXIMA);
uint first_logit = output_row * p.stride;

// The larger pair of the workgroup: x is compared first.
uvec2 largest_pair(uvec2 pair) {
  barrier();
  pairs[me] = pair;
  barrier();
  [[dont_unroll]] for (uint span = WIDTH / 2u; span > 0u; span /= 2u) {
    if (me < span) {
      const uvec2 other = pairs[me + span];
      const bool larger = other.x > pairs[me].x || (other.x == pairs[me].x && other.y > pairs[me].y);
      if (larger) pairs[me] = other;
    }
    barrier();
  }
  return pairs[0];
}

float sum(float value) {
  barrier();
  pairs[me].x = floatBitsToUint(value);
  barrier();
  [[dont_unroll]] for (uint span = WIDTH / 2u; span > 0u; span /= 2u) {
    if (me < span) pairs[me].x = floatBitsToUint(uintBitsToFloat(pairs[me].x) + uintBitsToFloat(pairs[me + span].x));
    barrier();
  }
  return uintBitsToFloat(pairs[0].x);
}

// The largest of the blocks' keys of a kind, and the first block that has it.
uvec2 largest_block(uint kind, uint blocks) {
  const uint from = words_of(output_row, kind);
  uvec2 best = uvec2(0u);
  [[dont_unroll]] for (uint first = me; first < blocks; first += WIDTH * AT_ONCE) {
    [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
      const uint b = first + WIDTH * i;
      const uint key = b < blocks ? scratch[from + b] : 0u;
      if (key > best.x) best = uvec2(key, ~b);
    }
  }
  return largest_pair(best);
}

// log(sum(exp(logit))) of the row.
float log_sum() {
  const uint tops = words_of(output_row, SEARCH_TOPS), sums = words_of(output_row, SEARCH_SUMS);
  const uint key = largest_block(SEARCH_TOPS, p.blocks).x;
  if (key == 0u) return 0.0;
  const float top = value_of(key);
  float mass = 0.0;
  [[dont_unroll]] for (uint first = me; first < p.blocks; first += WIDTH * AT_ONCE) {
    [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
      const uint b = first + WIDTH * i;
      const uint own = b < p.blocks ? scratch[tops + b] : 0u;
      if (own != 0u) mass += uintBitsToFloat(scratch[sums + b]) * exp(value_of(own) - top);
    }
  }
  return top + log(sum(mass));
}

// A block's largest key, looked up again.
void look_again(uint block) {
  const uint first = block * SEARCH_BLOCK, end = min(first + SEARCH_BLOCK, p.vocabulary);
  uint largest = 0u;
  [[dont_unroll]] for (uint id = first; id < end; ++id) largest = max(largest, key_of(logits[first_logit + id]));
  scratch[maxima + block] = largest;
}

// Penalties of log-probabilities. Of each block only one invocation changes anything.
void penalise(uint slot, float log_total) {
  const uint begin = slots[slot].forbidden, end = begin + slots[slot].penalised;
  for (uint n = begin; n < end; ++n) {
    const uint token = slots[slot].tokens[n], block = token / SEARCH_BLOCK;
    if (token >= p.vocabulary || block % WIDTH != me) continue;
    const float score = logits[first_logit + token] - log_total;
    logits[first_logit + token] =
        (score < 0.0 ? score * slots[slot].penalty : score / slots[slot].penalty) + log_total;
    look_again(block);
  }
}

// Whether all timestamps together are more probable than every other token; then those are forbidden, and `log_total`
// becomes that of the timestamps.
void prefer_timestamps(uint slot, inout float log_total) {
  const uint first = min(slots[slot].first_timestamp, p.vocabulary), whole = first / SEARCH_BLOCK;
  uint text = 0u, key = 0u;
  for (uint id = whole * SEARCH_BLOCK + me; id < first; id += WIDTH) text = max(text, key_of(logits[first_logit + id]));
  for (uint id = first + me; id < p.vocabulary; id += WIDTH) key = max(key, key_of(logits[first_logit + id]));
  text = max(largest_pair(uvec2(text, 0u)).x, largest_block(SEARCH_MAXIMA, whole).x);
  key = largest_pair(uvec2(key, 0u)).x;
  if (key == 0u) return;
  const float top = value_of(key);
  float mass = 0.0;
  for (uint id = first + me; id < p.vocabulary; id += WIDTH) {
    const uint own = key_of(logits[first_logit + id]);
    if (own != 0u) mass += exp(value_of(own) - top);
  }
  const float times = top + log(sum(mass));
  if (text != 0u && !(times > value_of(text))) return;
  for (uint b = me; b < whole; b += WIDTH) scratch[maxima + b] = 0u;
  if (whole % WIDTH == me && whole < p.blocks) {
    for (uint id = whole * SEARCH_BLOCK; id < first; ++id) logits[first_logit + id] = uintBitsToFloat(MINUS_INFINITY);
    look_again(whole);
  }
  if (slots[slot].after_softmax == 0u) log_total = times;
}

// Removes the first of a block's largest logits from it and returns its token.
uint take_largest(uint block, uint largest) {
  const uint first = block * SEARCH_BLOCK, end = min(first + SEARCH_BLOCK, p.vocabulary);
  uint taken = end, next = 0u;
  [[dont_unroll]] for (uint id = first; id < end; ++id) {
    const uint key = key_of(logits[first_logit + id]);
    if (taken == end && key == largest) {
      taken = id;
    } else {
      next = max(next, key);
    }
  }
  logits[first_logit + taken] = uintBitsToFloat(MINUS_INFINITY);
  scratch[maxima + block] = next;
  return taken;
}

void main() {
  if (output_row >= step_block[0].y) return;
  const uint slot = slot_of(output_row), tokens = best_tokens(output_row), scores = best_scores(output_row);
  const bool forced = slots[slot].forced != SEARCH_NONE;
  for (uint n = me; n < p.candidates; n += WIDTH) {
    scratch[tokens + n] = forced ? slots[slot].forced : 0u;
    scratch[scores + n] = forced && n == 0u ? 0u : MINUS_INFINITY;
  }
  if (forced) return;
  float log_total = log_sum();
  if (slots[slot].after_softmax != 0u) penalise(slot, log_total);
  if (slots[slot].first_timestamp != SEARCH_NONE) prefer_timestamps(slot, log_total);
  barrier();
  const uint wanted = min(slots[slot].wanted, p.candidates);
  for (uint n = 0u; n < wanted; ++n) {
    const uvec2 best = largest_block(SEARCH_MAXIMA, p.blocks);
    if (best.x == 0u) break;
    const uint block = ~best.y;
    if (block % WIDTH == me) { // the only invocation that looks at the block
      scratch[tokens + n] = take_largest(block, best.x);
      scratch[scores + n] = floatBitsToUint(value_of(best.x) - log_total);
    }
  }
}
