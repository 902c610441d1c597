// What choosing a token is made of: sums and maxima over the workgroup, lists of what is left to choose from, and limits.
#ifndef PUMICE_SAMPLING_SELECT_GLSL
#define PUMICE_SAMPLING_SELECT_GLSL

const uint WIDTH = gl_WorkGroupSize.x;
const uint LANES = WIDTH < 16u ? WIDTH : 16u; // whose values each invocation combines by itself
shared uvec4 shared_values[2 * WIDTH];
uint side = 0; // the half of shared_values not in use by invocations that are behind: spares a barrier

uint me = gl_LocalInvocationID.x;
uint maxima, sums, blocks, keys, raw_maxima, raw_sums, raw_keys; // where they begin in the scratch
uint block_count;                // of this invocation's blocks

uint limit = 0u; // nothing below it is left
float top;       // the largest logit, which weights are relative to: exp(logit - top)
bool typical = false;
float typical_center; // relative to top
uint typical_limit;   // once typical sampling has set it, nothing that is less typical is left

// Loops over many keys take this many at a time: some drivers end a shader's loops after 65,535 iterations in all.
const uint AT_ONCE = 8;

// Either the sums of x and y as floats and the maxima of z and w, or the larger pair of x and y, compared by x first.
uvec4 combine(uvec4 a, uvec4 b, bool add) {
  if (add) return uvec4(floatBitsToUint(uintBitsToFloat(a.xy) + uintBitsToFloat(b.xy)), max(a.zw, b.zw));
  return a.x > b.x || (a.x == b.x && a.y >= b.y) ? a : b;
}

uvec4 reduce(uvec4 value, bool add) {
  side = WIDTH - side;
  shared_values[side + me] = value;
  barrier();
  [[dont_unroll]] for (uint span = WIDTH / 2u; span >= LANES; span /= 2u) {
    if (me < span) shared_values[side + me] = combine(shared_values[side + me], shared_values[side + me + span], add);
    barrier();
  }
  uvec4 total = shared_values[side];
  [[dont_unroll]] for (uint i = 1; i < LANES; ++i) total = combine(total, shared_values[side + i], add);
  return total;
}
vec2 reduce_sum(vec2 value) { return uintBitsToFloat(reduce(uvec4(floatBitsToUint(value), 0u, 0u), true).xy); }
uvec2 reduce_largest(uvec2 pair) { return reduce(uvec4(pair, 0u, 0u), false).xy; }

// How near a logit is to the typical one, as a key: the nearer, the larger.
uint typicality(uint key) {
  precise const float distance = abs(value_of(key) - top - typical_center);
  return key_of(-distance);
}
bool is_left(uint key) { return key >= limit && (!typical || typicality(key) >= typical_limit); }

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
    [[dont_unroll]] for (uint c = first; c < first + SAMPLING_BLOCK; c += AT_ONCE) {
      [[unroll]] for (uint id = c; id < c + AT_ONCE; ++id) {
        const uint key = key_of(logits[gl_WorkGroupID.x * p.stride + id]);
        if (id < p.vocabulary && is_left(key)) scratch[keys + WIDTH * count++ + me] = key;
      }
    }
  }
  return count;
}

// What find_limit compares keys by, and what each of them counts.
const uint BY_COUNT = 0u;
const uint BY_MASS = 1u;
const uint BY_TYPICALITY = 2u; // in the order of typicality; weighs as BY_MASS does

// A limit that as few keys as can be pass, weighing `target` or more together; `low` if all together weigh less. Each
// pass over the lists drops the keys outside the range, and narrows it also to what is there.
uint find_limit(uint count, uint low, uint high, uint by, float target) {
  float above = 0.0; // weight of the keys that were above `high` before they were dropped
  for (uint pass = 0u; low < high; ++pass) {
    // Halving the range of values separates logits soonest, halving that of keys is sure to end.
    uint middle = high - (high - low) / 2u;
    if (pass < 16u) middle = clamp(key_of(0.5 * value_of(low) + 0.5 * value_of(high)), low + 1u, high);
    float weight = 0.0;
    uint kept = 0u;
    uint most = 0u, least = ~0u; // of the ranks there are
    [[dont_unroll]] for (uint first = 0u; first < count; first += AT_ONCE) {
      [[unroll]] for (uint n = first; n < first + AT_ONCE; ++n) {
        const uint key = scratch[keys + WIDTH * min(n, count - 1u) + me];
        const uint rank = by == BY_TYPICALITY ? typicality(key) : key;
        if (n < count && rank >= low && rank <= high) {
          scratch[keys + WIDTH * kept++ + me] = key;
          most = max(most, rank);
          least = min(least, rank);
          if (rank >= middle) weight += by == BY_COUNT ? 1.0 : exp(value_of(key) - top);
        }
      }
    }
    count = kept;
    const uvec4 total = reduce(uvec4(floatBitsToUint(weight), 0u, most, ~least), true);
    if (total.z <= ~total.w) break; // one rank or none: it decides, wherever in the range it is
    weight = above + uintBitsToFloat(total.x);
    if (weight >= target) {
      low = middle;
      if (by == BY_COUNT && weight == target) break; // exactly so many
    } else {
      above = weight;
      high = middle - 1u;
    }
    low = max(low, ~total.w);
    high = min(high, total.z);
  }
  return low;
}

#endif
