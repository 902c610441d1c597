// The parts of choosing a token: sums and maxima over the workgroup, lists of the keys that are left, and limits.
#ifndef PUMICE_SAMPLING_SELECT_GLSL
#define PUMICE_SAMPLING_SELECT_GLSL

const uint WIDTH = gl_WorkGroupSize.x;
const uint LANES = WIDTH < 16u ? WIDTH : 16u; // whose values each invocation combines by itself
shared uvec2 shared_values[2 * WIDTH];
uint side = 0; // the half of shared_values that slower invocations do not use: spares a barrier

uint me = gl_LocalInvocationID.x;
uint maxima, sums, blocks, keys, raw_maxima, raw_sums, raw_keys; // where they begin in the scratch
uint block_count;                // of this invocation's blocks

uint limit = 0u; // nothing below it is left
uint ceiling = 0xffffffffu; // nor above this
float temperature, inverse_temperature;
float top;       // the largest logit that is left, which weights are relative to: exp((logit - top) * coldness)
float heat = 1.0, coldness = 1.0; // the temperature, once it is applied, and its reciprocal
bool typical = false;
float typical_top, typical_center; // top when typical sampling ran, and the center relative to it
uint typical_limit;   // once typical sampling has set it, nothing that is less typical is left

// Returns the sum of two pairs of floats, or the larger pair: x is compared first.
uvec2 combine(uvec2 a, uvec2 b, bool add) {
  if (add) return floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(b));
  return a.x > b.x || (a.x == b.x && a.y >= b.y) ? a : b;
}

uvec2 reduce(uvec2 value, bool add) {
  side = WIDTH - side;
  shared_values[side + me] = value;
  barrier();
  [[dont_unroll]] for (uint span = WIDTH / 2u; span >= LANES; span /= 2u) {
    if (me < span) shared_values[side + me] = combine(shared_values[side + me], shared_values[side + me + span], add);
    barrier();
  }
  uvec2 total = shared_values[side];
  [[dont_unroll]] for (uint i = 1; i < LANES; ++i) total = combine(total, shared_values[side + i], add);
  return total;
}
vec2 reduce_sum(vec2 value) { return uintBitsToFloat(reduce(floatBitsToUint(value), true)); }
uvec2 reduce_largest(uvec2 pair) { return reduce(pair, false); }

// How near a logit is to the typical one, as a key: the nearer, the larger.
uint typicality(uint key) {
  precise const float distance = abs(value_of(key) - typical_top - typical_center);
  return key_of(-distance);
}
bool is_left(uint key) {
  return key >= limit && key <= ceiling && (!typical || typicality(key) >= typical_limit);
}

// This invocation's list of the blocks with anything at or above the limit.
void collect_blocks() {
  block_count = 0u;
  for (uint b = me; b < p.blocks; b += WIDTH) {
    if (scratch[maxima + b] >= limit) scratch[blocks + WIDTH * block_count++ + me] = b;
  }
}

// This invocation's list of the keys that are left.
uint collect_keys() {
  uint count = 0u;
  for (uint n = 0u; n < block_count; ++n) {
    const uint first = scratch[blocks + WIDTH * n + me] * SAMPLING_BLOCK;
    const uint end = min(first + SAMPLING_BLOCK, p.vocabulary);
    for (uint id = first; id < end; ++id) {
      const uint key = key_of(logits[gl_WorkGroupID.x * p.stride + id]);
      if (is_left(key)) scratch[keys + WIDTH * count++ + me] = key;
    }
  }
  return count;
}

// What find_limit compares keys by, and what each of them counts.
const uint BY_COUNT = 0u;
const uint BY_MASS = 1u;
const uint BY_TYPICALITY = 2u; // in the order of typicality; weighs as BY_MASS does

// Returns the highest limit that keys of `target` or more in weight pass, or `low` if all keys weigh less. Each pass
// over the lists narrows the range and drops the keys outside it.
uint find_limit(uint count, uint low, uint high, uint by, float target) {
  float above = 0.0; // weight of the keys that were above `high` before they were dropped
  for (uint pass = 0u; low < high; ++pass) {
    // Halving the range of values separates logits fastest. Halving the range of keys is certain to end.
    uint middle = high - (high - low) / 2u;
    if (pass < 16u) middle = clamp(key_of(0.5 * value_of(low) + 0.5 * value_of(high)), low + 1u, high);
    float weight = 0.0;
    uint kept = 0u;
    for (uint n = 0u; n < count; ++n) {
      const uint key = scratch[keys + WIDTH * n + me];
      const uint rank = by == BY_TYPICALITY ? typicality(key) : key;
      if (rank < low || rank > high) continue;
      scratch[keys + WIDTH * kept++ + me] = key;
      if (rank >= middle) weight += by == BY_COUNT ? 1.0 : exp((value_of(key) - top) * coldness);
    }
    count = kept;
    const vec2 total = reduce_sum(vec2(weight, float(kept)));
    if (total.y <= 1.0) break; // one key is left: it is the limit
    weight = above + total.x;
    if (weight >= target) {
      low = middle;
      if (by == BY_COUNT && weight == target) break; // exactly so many
    } else {
      above = weight;
      high = middle - 1u;
    }
  }
  return low;
}

#endif
