#version 460
// The logits' first pass: an invocation takes whole blocks of 32, applies the repetition penalty to them and leaves the
// block's largest key, so that the second pass reads only blocks in which there is something to find.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "sampling/sampling.params.h"
#include "sampling/sampling.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint SLICE = 8;
layout(push_constant) uniform Push { SampleParams p; };
READ_BUFFER(uvec4, step_block, SAMPLING_STEP);
READ_BUFFER(SamplingSlot, slots, SAMPLING_STATE);
WRITE_BUFFER(vec4, logits, SAMPLING_LOGITS);
WRITE_BUFFER(uint, scratch, SAMPLING_SCRATCH);

shared uint repeated[SLICE]; // a bit for each logit of the slice

// Windows are looked up once for the slice: each token in it sets a bit, however often it occurs.
void mark_repeated(uint slot, uint first_block) {
  for (uint i = gl_LocalInvocationID.x; i < SLICE; i += gl_WorkGroupSize.x) repeated[i] = 0u;
  barrier();
  const uint count = slots[slot].count;
  const uint window = min(count, slots[slot].repeat_window);
  for (uint i = gl_LocalInvocationID.x; i < window; i += gl_WorkGroupSize.x) {
    const uint token = slots[slot].tokens[(count - 1u - i) % SAMPLING_RING];
    const uint block = token / SAMPLING_BLOCK - first_block; // wraps round below the first
    if (block < SLICE) atomicOr(repeated[block], 1u << (token % SAMPLING_BLOCK));
  }
  barrier();
}

void main() {
  const uint output_row = gl_WorkGroupID.y;
  if (output_row >= step_block[0].y) return;
  const uint row_words = SAMPLING_ROW_QUAD + p.padded * SAMPLING_WORDS_PER_BLOCK;
  const uint base = output_row * row_words;
  // pick overwrites rows of the step block; it finds the row that this output came from here.
  const uvec4 row = step_block[1u + step_block[1u + p.capacity + output_row].x];
  const uint slot = min(row.z, p.sequences - 1u);
  const uint first_block = gl_WorkGroupID.x * SLICE;
  const uint me = gl_LocalInvocationID.x;
  if (gl_WorkGroupID.x == 0u && me < SAMPLING_ROW_QUAD) scratch[base + me] = row[me];

  const bool penalise = slots[slot].repeat_window != 0u;
  if (penalise) mark_repeated(slot, first_block);
  // Only top-p over the whole vocabulary needs the probability of all of it.
  const bool sum_up = slots[slot].temperature > 0.0 && slots[slot].top_p < 1.0 &&
                      top_k_of(slots[slot].top_k, p.vocabulary) == 0u;
  const float penalty = slots[slot].repeat_penalty;
  const float inverse_penalty = slots[slot].inverse_repeat_penalty;

  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
    const uint block = first_block + i;
    if (block >= p.blocks) break;
    const uint quad = (output_row * p.stride + block * SAMPLING_BLOCK) >> 2;
    const uint used = min(p.vocabulary - block * SAMPLING_BLOCK, SAMPLING_BLOCK);
    const uint marks = penalise ? repeated[i] : 0u;
    uint largest = 0u;
    // Unrolled, it takes the driver more than twice as long to compile and no less to run.
    [[dont_unroll]] for (uint c = 0u; c < SAMPLING_BLOCK; c += 4u) {
      vec4 v = logits[quad + (c >> 2)];
      if (((marks >> c) & 15u) != 0u) {
        [[unroll]] for (uint e = 0; e < 4; ++e) {
          if (((marks >> (c + e)) & 1u) != 0u) v[e] *= v[e] > 0.0 ? inverse_penalty : penalty;
        }
        logits[quad + (c >> 2)] = v;
      }
      [[unroll]] for (uint e = 0; e < 4; ++e) largest = max(largest, c + e < used ? key_of(v[e]) : 0u);
    }
    scratch[base + SAMPLING_ROW_QUAD + block] = largest;
    if (sum_up) {
      float sum = 0.0;
      for (uint c = 0u; c < used; ++c) {
        const uint key = key_of(logits[quad + (c >> 2)][c & 3u]);
        if (key != 0u) sum += exp(value_of(key) - value_of(largest));
      }
      scratch[base + SAMPLING_ROW_QUAD + p.padded + block] = floatBitsToUint(sum);
    }
  }
}
