#version 460
// The logits' second pass: a workgroup chooses the token of one output row and writes the next step's row.
//
// Every filter is a limit on the logit, so filtering is raising `limit`. A draw from a softmax is the largest of
// logit / temperature + Gumbel noise (Gumbel 1954; Maddison et al. 2014, "A* sampling"), with noise that depends on
// seed, position and token alone: neither the workgroup's shape nor the order of the additions shows in it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "sampling/sampling.params.h"
#include "sampling/sampling.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { SampleParams p; };
WRITE_BUFFER(uvec4, step_block, SAMPLING_STEP);
WRITE_BUFFER(SamplingSlot, slots, SAMPLING_STATE);
READ_BUFFER(float, logits, SAMPLING_LOGITS);
WRITE_BUFFER(uint, scratch, SAMPLING_SCRATCH);

const uint WIDTH = gl_WorkGroupSize.x;
const uint LANES = WIDTH < 16u ? WIDTH : 16u; // whose values each invocation combines by itself
shared uvec2 shared_values[2 * WIDTH];
uint side = 0; // the half of shared_values not in use by invocations that are behind: spares a barrier

uint me = gl_LocalInvocationID.x;
uint maxima, sums, blocks, keys; // where they begin in the scratch
uint block_count;                // of this invocation's blocks

// Either the sum of two pairs of floats or the larger pair, compared by x first.
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

// This invocation's list of the blocks with anything at or above the limit.
void collect_blocks(uint limit) {
  block_count = 0u;
  for (uint b = me; b < p.blocks; b += WIDTH) {
    if (scratch[maxima + b] >= limit) scratch[blocks + WIDTH * block_count++ + me] = b;
  }
}

// This invocation's list of the keys at or above the limit.
uint collect_keys(uint limit) {
  uint count = 0u;
  for (uint n = 0u; n < block_count; ++n) {
    const uint first = scratch[blocks + WIDTH * n + me] * SAMPLING_BLOCK;
    const uint end = min(first + SAMPLING_BLOCK, p.vocabulary);
    for (uint id = first; id < end; ++id) {
      const uint key = key_of(logits[gl_WorkGroupID.x * p.stride + id]);
      if (key >= limit) scratch[keys + WIDTH * count++ + me] = key;
    }
  }
  return count;
}

// A limit that as few keys as can be pass, weighing `target` or more together; `low` if all together weigh less. Each
// pass over the lists narrows the range and drops the keys outside it.
uint find_limit(uint count, uint low, uint high, bool by_mass, float top, float target) {
  float above = 0.0; // weight of the keys that were above `high` before they were dropped
  for (uint pass = 0u; low < high; ++pass) {
    // Halving the range of values separates logits soonest, halving that of keys is sure to end.
    uint middle = high - (high - low) / 2u;
    if (pass < 16u) middle = clamp(key_of(0.5 * value_of(low) + 0.5 * value_of(high)), low + 1u, high);
    float weight = 0.0;
    uint kept = 0u;
    for (uint n = 0u; n < count; ++n) {
      const uint key = scratch[keys + WIDTH * n + me];
      if (key < low || key > high) continue;
      scratch[keys + WIDTH * kept++ + me] = key;
      if (key >= middle) weight += by_mass ? exp(value_of(key) - top) : 1.0;
    }
    count = kept;
    const vec2 total = reduce_sum(vec2(weight, float(kept)));
    if (total.y <= 1.0) break; // the one key there is decides, wherever in the range it is
    weight = above + total.x;
    if (weight >= target) {
      low = middle;
      if (!by_mass && weight == target) break; // exactly so many
    } else {
      above = weight;
      high = middle - 1u;
    }
  }
  return low;
}

// pcg4d of Jarzynski and Olano 2020, "Hash Functions for GPU Rendering", JCGT 9(3).
uint random_bits(uvec4 v) {
  v = v * 1664525u + 1013904223u;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  v ^= v >> 16u;
  v.x += v.y * v.w;
  v.y += v.z * v.x;
  v.z += v.x * v.y;
  v.w += v.y * v.z;
  return v.x;
}

// -log(-log(1 - c)), exact also where c is too small for 1 - c to show it; between -2.9 and 22.9.
float gumbel(uint bits) {
  const float c = min((float(bits) + 0.5) * 2.3283064365386963e-10, 0.99999994);
  return -log(c < 1e-3 ? c + 0.5 * c * c : -log(1.0 - c));
}

// The limit that top-k, top-p, min-p and the noise's range set; the lists of blocks are made on the way.
uint filtered(uint slot, uint top_key) {
  const float top = value_of(top_key);
  const uint top_k = top_k_of(slots[slot].top_k, p.vocabulary);
  const float top_p = slots[slot].top_p;
  const float temperature = slots[slot].temperature;
  // Further below the largest than the noise ranges, nothing is ever drawn.
  const uint unlikely = max(key_of(top + max(-26.0 * temperature, slots[slot].log_min_p)), LEAST_KEY);
  uint limit = unlikely;
  float target = float(top_k);
  if (top_k != 0u) {
    // min-p comes last: before it, everything counts that shows in a sum of probabilities.
    limit = max(key_of(top - max(26.0 * temperature, 40.0)), LEAST_KEY);
  }

  // The blocks' maxima are enough for a first limit, which leaves few blocks. Then top-k and top-p by the logits.
  for (uint stage = 0u; stage < 3u; ++stage) {
    const bool by_mass = top_k == 0u || stage == 2u;
    const bool skip = by_mass ? top_p >= 1.0 || stage == 1u : stage == 0u && top_k > p.blocks;
    if (!skip) {
      uint count = 0u;
      float mass = 0.0;
      if (stage == 0u) {
        for (uint b = me; b < p.blocks; b += WIDTH) {
          const uint largest = scratch[maxima + b];
          scratch[keys + WIDTH * count++ + me] = largest;
          if (by_mass && largest != 0u) mass += uintBitsToFloat(scratch[sums + b]) * exp(value_of(largest) - top);
        }
      } else {
        count = collect_keys(limit);
      }
      if (by_mass && (stage == 0u || top_k != 0u)) {
        if (stage == 2u) {
          for (uint n = 0u; n < count; ++n) mass += exp(value_of(scratch[keys + WIDTH * n + me]) - top);
        }
        mass = reduce_sum(vec2(mass, 0.0)).x;
        target = top_p * mass;
        // What top-p drops weighs 1 - p together with the least that it keeps, which so cannot be just any small.
        limit = max(limit, key_of(top + log(mass * (1.0 - top_p) / float(p.vocabulary)) - 0.01));
      }
      limit = find_limit(count, limit, top_key, by_mass, top, target);
    }
    if (stage == 0u) collect_blocks(limit);
  }
  return max(limit, unlikely);
}

void main() {
  const uint output_row = gl_WorkGroupID.x;
  const uint outputs = step_block[0].y;
  if (output_row >= outputs) return;
  const uint base = output_row * (SAMPLING_ROW_QUAD + p.padded * SAMPLING_WORDS_PER_BLOCK);
  maxima = base + SAMPLING_ROW_QUAD;
  sums = maxima + p.padded;
  blocks = sums + p.padded;
  keys = blocks + p.padded;
  const uvec4 row = uvec4(scratch[base], scratch[base + 1u], scratch[base + 2u], scratch[base + 3u]);
  const uint slot = min(row.z, p.sequences - 1u);

  uint top_key = 0u;
  for (uint b = me; b < p.blocks; b += WIDTH) top_key = max(top_key, scratch[maxima + b]);
  top_key = reduce(uvec2(top_key, 0u), false).x;

  // Greedy choice is a draw without noise among the largest.
  const bool greedy = !(slots[slot].temperature > 0.0) || top_key == 0u;
  uint limit = top_key;
  if (greedy) {
    collect_blocks(limit);
  } else {
    limit = filtered(slot, top_key);
  }

  uint best = 0u, best_id = 0u;
  for (uint n = 0u; n < block_count; ++n) {
    const uint first = scratch[blocks + WIDTH * n + me] * SAMPLING_BLOCK;
    const uint end = min(first + SAMPLING_BLOCK, p.vocabulary);
    for (uint id = first; id < end; ++id) {
      const uint key = key_of(logits[output_row * p.stride + id]);
      if (key < limit) continue;
      uint score = 1u;
      if (!greedy) {
        const uint bits = random_bits(uvec4(slots[slot].seed_low, slots[slot].seed_high, row.y + 1u, id));
        score = key_of((value_of(key) - value_of(top_key)) * slots[slot].inverse_temperature + gumbel(bits));
      }
      if (score > best) {
        best = score;
        best_id = id;
      }
    }
  }
  const uint token = ~reduce(uvec2(best, ~best_id), false).y; // of equal scores the lowest id

  if (me != 0u) return;
  step_block[1u + output_row] = uvec4(token, row.y + 1u, row.z, row.w);
  step_block[1u + p.capacity + output_row] = uvec4(output_row, 0u, 0u, 0u);
  slots[slot].tokens[slots[slot].count % SAMPLING_RING] = token;
  slots[slot].count += 1u;
  if (output_row == 0u) {
    // Never the whole header: other workgroups may be reading its output count.
    step_block[0].x = outputs;
    step_block[0].z += 1u;
  }
}
