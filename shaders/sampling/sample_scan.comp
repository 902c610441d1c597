#version 460
// The logits' first pass: an invocation takes whole blocks of 32, adds biases and penalties to them and leaves the
// block's largest key, so that the second pass reads only blocks in which there is something to find.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "sampling/sampling.params.h"
#include "sampling/sampling.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = SAMPLING_SLICE_ID) const uint SLICE = 8;
layout(push_constant) uniform Push { SampleParams p; };
READ_BUFFER(uvec4, step_block, SAMPLING_STEP);
READ_BUFFER(SamplingSlot, slots, SAMPLING_STATE);
WRITE_BUFFER(vec4, logits, SAMPLING_LOGITS);
WRITE_BUFFER(uint, scratch, SAMPLING_SCRATCH);

const uint MINUS_INFINITY = 0xff800000u;
shared uint repeated[SLICE]; // a bit for each logit of the slice

uint me = gl_LocalInvocationID.x;
uint first_block = gl_WorkGroupID.x * SLICE;
uint area; // where the row's words begin in the scratch, after its row of the step block
uint slot;

uint words(uint kind) { return area + kind * p.padded; }
uint first_quad(uint block) { return (gl_WorkGroupID.y * p.stride + block * SAMPLING_BLOCK) >> 2; }
uint columns_of(uint block) { return min(p.vocabulary - block * SAMPLING_BLOCK, SAMPLING_BLOCK); }
bool in_slice(uint token) { // the difference wraps round below the first block
  return token < p.vocabulary && token / SAMPLING_BLOCK - first_block < SLICE;
}

float sum_of(uint block, uint largest) {
  float sum = 0.0;
  [[dont_unroll]] for (uint c = 0u; c < columns_of(block); ++c) {
    const uint key = key_of(logits[first_quad(block) + (c >> 2)][c & 3u]);
    if (key != 0u) sum += exp(value_of(key) - value_of(largest));
  }
  return sum;
}

// Stores what a report needs of a block's logits, before biases and penalties change them.
void keep_raw(uint block) {
  uint largest = 0u;
  [[dont_unroll]] for (uint c = 0u; c < columns_of(block); ++c) {
    const uint key = key_of(logits[first_quad(block) + (c >> 2)][c & 3u]);
    scratch[words(SAMPLING_RAW_KEYS) + block * SAMPLING_BLOCK + c] = key;
    largest = max(largest, key);
  }
  scratch[words(SAMPLING_RAW_MAXIMA) + block] = largest;
  scratch[words(SAMPLING_RAW_SUMS) + block] = floatBitsToUint(sum_of(block, largest));
}

// Every invocation reads the whole list and applies only the biases of its own blocks: no barrier is needed.
void add_biases() {
  for (uint n = 0u; n < slots[slot].bias_count; ++n) {
    const uint token = slots[slot].bias_tokens[n];
    const uint block = token / SAMPLING_BLOCK;
    if (!in_slice(token) || (block - first_block) % gl_WorkGroupSize.x != me) continue;
    const uint quad = first_quad(block) + (token % SAMPLING_BLOCK >> 2);
    const float bias = slots[slot].biases[n];
    const bool forbidden = floatBitsToUint(bias) == MINUS_INFINITY;
    logits[quad][token & 3u] = forbidden ? uintBitsToFloat(MINUS_INFINITY) : logits[quad][token & 3u] + bias;
  }
}

// The window is looked up once for the slice: each token in it sets a bit, however often it occurs, and is counted
// where counts matter. Those are reached by atomics alone, which makes them visible to the whole workgroup.
void mark_repeated(bool counted) {
  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) repeated[i] = 0u;
  const uint count = slots[slot].count;
  const uint window = min(count, slots[slot].repeat_window);
  for (uint pass = counted ? 0u : 1u; pass < 2u; ++pass) {
    memoryBarrierBuffer();
    barrier();
    for (uint i = me; i < window; i += gl_WorkGroupSize.x) {
      const uint token = slots[slot].tokens[(count - 1u - i) % SAMPLING_RING];
      if (!in_slice(token)) continue;
      if (pass == 0u) {
        atomicExchange(scratch[words(SAMPLING_KEYS) + token], 0u);
        continue;
      }
      atomicOr(repeated[token / SAMPLING_BLOCK - first_block], 1u << (token % SAMPLING_BLOCK));
      if (counted) atomicAdd(scratch[words(SAMPLING_KEYS) + token], 1u);
    }
  }
  memoryBarrierBuffer();
  barrier();
}

float penalised(float logit, uint token, bool counted) {
  logit *= logit > 0.0 ? slots[slot].inverse_repeat_penalty : slots[slot].repeat_penalty;
  const float times = counted ? float(atomicAdd(scratch[words(SAMPLING_KEYS) + token], 0u)) : 0.0;
  return logit - (times * slots[slot].frequency_penalty + slots[slot].presence_penalty);
}

void main() {
  const uint output_row = gl_WorkGroupID.y;
  if (output_row >= step_block[0].y) return;
  area = output_row * (SAMPLING_ROW_QUAD + p.padded * SAMPLING_WORDS_PER_BLOCK) + SAMPLING_ROW_QUAD;
  // pick overwrites rows of the step block. The scratch keeps for it the row that this output came from.
  const uvec4 row = step_block[1u + step_block[1u + p.capacity + output_row].x];
  slot = min(row.z, p.sequences - 1u);
  if (gl_WorkGroupID.x == 0u && me < SAMPLING_ROW_QUAD) scratch[area - SAMPLING_ROW_QUAD + me] = row[me];

  // Every invocation enters the loops over blocks: some drivers crash in a loop that a whole subgroup skips.
  if (slots[slot].log_probabilities != 0u) {
    for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
      if (first_block + i < p.blocks) keep_raw(first_block + i);
    }
  }
  if (slots[slot].bias_count != 0u) add_biases();
  const bool penalise = slots[slot].repeat_window != 0u;
  const bool counted = slots[slot].frequency_penalty != 0.0;
  if (penalise) mark_repeated(counted);
  const bool sum_up = needs_all_sums(slots[slot].temperature, slots[slot].top_k, slots[slot].typical_p,
                                     slots[slot].top_p, p.vocabulary);

  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
    const uint block = first_block + i;
    if (block >= p.blocks) break;
    const uint quad = first_quad(block), used = columns_of(block);
    const uint marks = penalise ? repeated[i] : 0u;
    uint largest = 0u;
    // Unrolled, it takes the driver more than twice as long to compile and no less to run.
    [[dont_unroll]] for (uint c = 0u; c < SAMPLING_BLOCK; c += 4u) {
      vec4 v = logits[quad + (c >> 2)];
      if (((marks >> c) & 15u) != 0u) {
        [[dont_unroll]] for (uint e = 0; e < 4; ++e) {
          if (((marks >> (c + e)) & 1u) != 0u) v[e] = penalised(v[e], block * SAMPLING_BLOCK + c + e, counted);
        }
        logits[quad + (c >> 2)] = v;
      }
      [[unroll]] for (uint e = 0; e < 4; ++e) largest = max(largest, c + e < used ? key_of(v[e]) : 0u);
    }
    scratch[words(SAMPLING_MAXIMA) + block] = largest;
    if (sum_up) scratch[words(SAMPLING_SUMS) + block] = floatBitsToUint(sum_of(block, largest));
  }
}
