// The log-probabilities of a token and of the most probable ones, from the logits before biases and penalties.
#ifndef PUMICE_SAMPLING_REPORT_GLSL
#define PUMICE_SAMPLING_REPORT_GLSL
#include "sampling/select.glsl"

// Removes the first of a block's largest logits from it and returns its token.
uint take_largest(uint block, uint largest) {
  const uint first = block * SAMPLING_BLOCK, end = min(first + SAMPLING_BLOCK, p.vocabulary);
  uint taken = end, next = 0u;
  for (uint id = first; id < end; ++id) {
    const uint key = scratch[raw_keys + id];
    if (taken == end && key == largest) {
      taken = id;
    } else {
      next = max(next, key);
    }
  }
  scratch[raw_keys + taken] = 0u;
  scratch[raw_maxima + block] = next;
  return taken;
}

// Some drivers end a shader's loops after 65,535 iterations in all, and these loops read the blocks many times.
const uint AT_ONCE = 8;

// The largest key and the lowest of the blocks that have it, negated.
uvec2 largest_block() {
  uvec2 best = uvec2(0u);
  [[dont_unroll]] for (uint first = me; first < p.blocks; first += WIDTH * AT_ONCE) {
    [[unroll]] for (uint i = 0u; i < AT_ONCE; ++i) {
      const uint b = first + WIDTH * i;
      if (b < p.blocks) best = combine(best, uvec2(scratch[raw_maxima + b], ~b), false);
    }
  }
  return reduce_largest(best);
}

void report(uint slot, uint n, uint token) {
  const uint wanted = min(slots[slot].log_probabilities, SAMPLING_TOP), place = n % SAMPLING_REPORTS;
  const uint token_key = scratch[raw_keys + token];
  uvec2 best = largest_block();
  const float largest = value_of(best.x);
  float mass = 0.0;
  for (uint b = me; b < p.blocks; b += WIDTH) {
    const uint key = scratch[raw_maxima + b];
    if (key != 0u) mass += uintBitsToFloat(scratch[raw_sums + b]) * exp(value_of(key) - largest);
  }
  const float log_mass = log(reduce_sum(vec2(mass, 0.0)).x);

  uint count = 0u;
  while (count < wanted && best.x != 0u) {
    const uint block = ~best.y;
    if (block % WIDTH == me) { // the only invocation that looks at the block
      slots[slot].reports[place].tokens[count] = take_largest(block, best.x);
      slots[slot].reports[place].log_probabilities[count] = value_of(best.x) - largest - log_mass;
    }
    best = largest_block();
    ++count;
  }
  if (me == 0u) {
    slots[slot].reports[place].count = count;
    slots[slot].reports[place].log_probability =
        token_key == 0u ? uintBitsToFloat(0xff800000u) : value_of(token_key) - largest - log_mass;
  }
}

#endif
