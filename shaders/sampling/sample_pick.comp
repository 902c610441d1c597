#version 460
// The logits' second pass: a workgroup chooses the token of one output row and writes the next step's row.
//
// A draw from a softmax is the largest of logit / temperature + Gumbel noise (Gumbel 1954; Maddison et al. 2014,
// "A* sampling"), with noise that depends on seed, position and token alone: neither the workgroup's shape nor the order
// of the additions shows in it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "sampling/sampling.params.h"
#include "sampling/order.glsl"
#include "sampling/noise.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { SampleParams p; };
WRITE_BUFFER(uvec4, step_block, SAMPLING_STEP);
WRITE_BUFFER(SamplingSlot, slots, SAMPLING_STATE);
READ_BUFFER(float, logits, SAMPLING_LOGITS);
WRITE_BUFFER(uint, scratch, SAMPLING_SCRATCH);
READ_BUFFER(uint, forms, SAMPLING_FORMS);

#include "sampling/filters.glsl"
#include "sampling/report.glsl"
#include "sampling/form.glsl"

const uint XTC_DRAW = 0xffffffffu; // in the place of a token

bool is_breaker(uint slot, uint token) {
  return token < SAMPLING_BREAKERS && ((slots[slot].dry_breakers[token / 32u] >> (token % 32u)) & 1u) != 0u;
}

void main() {
  const uint output_row = gl_WorkGroupID.x;
  const uint outputs = step_block[0].y;
  if (output_row >= outputs) return;
  const uint base = output_row * (SAMPLING_ROW_QUAD + p.padded * SAMPLING_WORDS_PER_BLOCK);
  maxima = base + SAMPLING_ROW_QUAD;
  sums = maxima + SAMPLING_SUMS * p.padded;
  blocks = maxima + SAMPLING_BLOCKS * p.padded;
  keys = maxima + SAMPLING_KEYS * p.padded;
  raw_maxima = maxima + SAMPLING_RAW_MAXIMA * p.padded;
  raw_sums = maxima + SAMPLING_RAW_SUMS * p.padded;
  raw_keys = maxima + SAMPLING_RAW_KEYS * p.padded;
  const uvec4 row = uvec4(scratch[base], scratch[base + 1u], scratch[base + 2u], scratch[base + 3u]);
  const uint slot = min(row.z, p.sequences - 1u);
  const uint n = row.x;

  uint top_key = 0u;
  for (uint b = me; b < p.blocks; b += WIDTH) top_key = max(top_key, scratch[maxima + b]);
  top_key = reduce_largest(uvec2(top_key, 0u)).x;

  // Greedy choice is a draw without noise among the largest.
  temperature = slots[slot].temperature;
  inverse_temperature = slots[slot].inverse_temperature;
  const bool greedy = !(temperature > 0.0) || top_key == 0u;
  const bool surprising = !greedy && slots[slot].mirostat != 0u;
  limit = top_key;
  top = value_of(top_key);
  const uvec4 seed = uvec4(slots[slot].seed_low, slots[slot].seed_high, row.y + 1u, XTC_DRAW);
  if (greedy) {
    collect_blocks();
  } else if (surprising) {
    limit_surprise(slot, top_key);
  } else {
    const float chance = slots[slot].xtc_probability;
    top_key = filter_keys(slot, top_key, chance > 0.0 && fraction(random_bits(seed)) <= chance);
  }

  uint best = 0u, best_id = 0u;
  for (uint i = 0u; i < block_count; ++i) {
    const uint first = scratch[blocks + WIDTH * i + me] * SAMPLING_BLOCK;
    const uint end = min(first + SAMPLING_BLOCK, p.vocabulary);
    for (uint id = first; id < end; ++id) {
      const uint key = key_of(logits[output_row * p.stride + id]);
      if (!is_left(key)) continue;
      uint score = 1u;
      if (!greedy) {
        const uint bits = random_bits(uvec4(seed.xyz, id));
        score = key_of((value_of(key) - value_of(top_key)) * inverse_temperature + gumbel(bits));
      }
      if (score > best) {
        best = score;
        best_id = id;
      }
    }
  }
  const uint token = ~reduce_largest(uvec2(best, ~best_id)).y; // of equal scores the lowest id

  if (surprising) learn_surprise(slot, token);
  if (slots[slot].log_probabilities != 0u) report(slot, n, token);

  bool stops = false;
  for (uint i = 0u; i < min(slots[slot].stop_count, SAMPLING_STOPS); ++i) stops = stops || slots[slot].stops[i] == token;

  if (me != 0u) return;
  step_block[1u + output_row] = uvec4(token, row.y + 1u, row.z, row.w);
  step_block[1u + p.capacity + output_row] = uvec4(output_row, 0u, 0u, 0u);
  slots[slot].tokens[n % SAMPLING_RING] = token;
  slots[slot].count = n + 1u; // with guessed rows, the host sets it to those that hold
  if (stops) atomicMin(slots[slot].finished_at, n); // rows of one step may be of one sequence
  if (slots[slot].dry_multiplier > 0.0 && is_breaker(slot, token)) slots[slot].dry_first = n + 1u;
  if (slots[slot].form != 0u) {
    // The row behind reads the place that this one writes. If they differ, the guess between them does not hold, and that row
    // does not count.
    const uint place = slots[slot].places[n % SAMPLING_PLACES], next = form_step(slots[slot].form - 1u, place, token);
    slots[slot].places[(n + 1u) % SAMPLING_PLACES] = next == SAMPLING_NOWHERE ? place : next;
  }
  if (output_row == 0u) {
    // Never the whole header: other workgroups may be reading its output count.
    step_block[0].x = outputs;
    step_block[0].z += 1u;
  }
}
