#version 460
// The logits' first pass: an invocation takes whole blocks of 32, adds biases, penalties, mask and form to them and leaves the
// block's largest key, so that the second pass reads only blocks in which there is something to find.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "sampling/sampling.params.h"
#include "sampling/order.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = SAMPLING_SLICE_ID) const uint SLICE = 8;
layout(push_constant) uniform Push { SampleParams p; };
READ_BUFFER(uvec4, step_block, SAMPLING_STEP);
READ_BUFFER(SamplingSlot, slots, SAMPLING_STATE);
WRITE_BUFFER(vec4, logits, SAMPLING_LOGITS);
WRITE_BUFFER(uint, scratch, SAMPLING_SCRATCH);
READ_BUFFER(uint, forms, SAMPLING_FORMS);

#include "sampling/form.glsl"

const uint MINUS_INFINITY = 0xff800000u;
shared uint repeated[SLICE]; // a bit for each logit of the slice

uint me = gl_LocalInvocationID.x;
uint first_block = gl_WorkGroupID.x * SLICE;
uint area; // where the row's words begin in the scratch, after its row of the step block
uint slot;
uint appended; // tokens before the one that is sampled: those of the ring, and rows of this step that are guessed at
uint guessed;  // those rows

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

void meet() {
  memoryBarrierBuffer();
  barrier();
}

void mark(uint token) { atomicOr(repeated[token / SAMPLING_BLOCK - first_block], 1u << (token % SAMPLING_BLOCK)); }
uint latest(uint i) { return slots[slot].tokens[(appended - 1u - i) % SAMPLING_RING]; }

// How many of the latest `run` tokens also stand behind each other from the latest but `i` on. Eight at a time, because
// some drivers end a shader's loops after 65,535 iterations in all.
uint repetition(uint i, uint run) {
  uint length = 0u;
  bool same = true;
  [[dont_unroll]] for (uint first = 0u; same && first < run; first += 8u) {
    [[unroll]] for (uint k = 0u; k < 8u; ++k) {
      same = same && first + k < run && latest(first + k) == latest(i + first + k);
      length += uint(same);
    }
  }
  return length;
}

// DRY: each token of the slice that would make a repetition longer gets its length, the longest of several, above the
// bits of its count.
void mark_repetitions(uint window) {
  const uint run = min(min(appended - slots[slot].dry_first, window), SAMPLING_MATCH);
  const uint allowed = slots[slot].dry_allowed_length;
  for (uint i = me; i + 1u < window && run >= allowed; i += gl_WorkGroupSize.x) {
    const uint token = latest(i);
    if (!in_slice(token)) continue;
    const uint length = repetition(i + 1u, min(run, window - 1u - i));
    if (length < allowed) continue;
    mark(token);
    atomicMax(scratch[words(SAMPLING_KEYS) + token], length << 16);
  }
}

// The window is looked up once for the slice: each token in it sets a bit, however often it occurs, and is counted
// where counts matter. Those are reached by atomics alone, which makes them visible to the whole workgroup.
void mark_repeated(bool counted, bool repetitions) {
  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) repeated[i] = 0u;
  const uint window = min(appended, slots[slot].repeat_window);
  const uint dry_window = repetitions ? min(appended, slots[slot].dry_window) : 0u;
  for (uint i = me; counted && i < max(window, dry_window); i += gl_WorkGroupSize.x) {
    if (in_slice(latest(i))) atomicExchange(scratch[words(SAMPLING_KEYS) + latest(i)], 0u);
  }
  meet();
  if (repetitions) {
    mark_repetitions(dry_window);
    meet();
  }
  for (uint i = me; i < window; i += gl_WorkGroupSize.x) {
    const uint token = latest(i);
    if (!in_slice(token)) continue;
    mark(token);
    if (counted) atomicAdd(scratch[words(SAMPLING_KEYS) + token], 1u);
  }
  meet();
}

float penalised(float logit, uint token, bool counted, bool repetitions) {
  const uint found = counted ? atomicAdd(scratch[words(SAMPLING_KEYS) + token], 0u) : 0u;
  const uint count = found & 0xffffu, length = found >> 16;
  if (!repetitions || count > 0u) {
    logit *= logit > 0.0 ? slots[slot].inverse_repeat_penalty : slots[slot].repeat_penalty;
    logit -= float(count) * slots[slot].frequency_penalty + slots[slot].presence_penalty;
  }
  if (length == 0u) return logit;
  const float exponent = float(length - slots[slot].dry_allowed_length) * slots[slot].log2_dry_base;
  return logit - slots[slot].dry_multiplier * exp2(min(exponent, 100.0));
}

// The bits of a block's tokens that may be drawn; set also for columns after the last token.
uint allowed_in(uint block, uint used) {
  const uint form = slots[slot].form;
  uint allowed = 0xffffffffu;
  if (form != 0u) {
    allowed = allowed_by_form(form - 1u, slots[slot].places[appended % SAMPLING_PLACES], block);
  } else if (slots[slot].masked != 0u && block < SAMPLING_MASK) {
    allowed = guessed == 0u ? slots[slot].mask[block] : forms[slots[slot].draft_masks + (guessed - 1u) * p.blocks + block];
  }
  return allowed | (used < 32u ? 0xffffffffu << used : 0u);
}

void main() {
  const uint output_row = gl_WorkGroupID.y;
  if (output_row >= step_block[0].y) return;
  area = output_row * (SAMPLING_ROW_QUAD + p.padded * SAMPLING_WORDS_PER_BLOCK) + SAMPLING_ROW_QUAD;
  // pick overwrites rows of the step block and counts. The scratch keeps for it the row that this output came from,
  // with the number of the token that is sampled in the place of the row's token.
  const uvec4 detail = step_block[1u + p.capacity + output_row];
  uvec4 row = step_block[1u + detail.x];
  slot = min(row.z, p.sequences - 1u);
  guessed = detail.y;
  appended = row.x = slots[slot].count + guessed;
  if (gl_WorkGroupID.x == 0u && me < SAMPLING_ROW_QUAD) scratch[area - SAMPLING_ROW_QUAD + me] = row[me];

  // Every invocation enters the loops over blocks: some drivers crash in a loop that a whole subgroup skips.
  if (slots[slot].log_probabilities != 0u) {
    for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
      if (first_block + i < p.blocks) keep_raw(first_block + i);
    }
  }
  if (slots[slot].bias_count != 0u) add_biases();
  const bool repetitions = slots[slot].dry_multiplier > 0.0;
  const bool penalise = slots[slot].repeat_window != 0u || repetitions;
  const bool counted = slots[slot].frequency_penalty != 0.0 || repetitions;
  if (penalise) mark_repeated(counted, repetitions);
  const bool sum_up = needs_all_sums(slots[slot].temperature, slots[slot].order, slots[slot].top_k, p.vocabulary);

  for (uint i = me; i < SLICE; i += gl_WorkGroupSize.x) {
    const uint block = first_block + i;
    if (block >= p.blocks) break;
    const uint quad = first_quad(block), used = columns_of(block);
    const uint marks = penalise ? repeated[i] : 0u;
    const uint allowed = allowed_in(block, used);
    uint largest = 0u;
    // Unrolled, it takes the driver more than twice as long to compile and no less to run.
    [[dont_unroll]] for (uint c = 0u; c < SAMPLING_BLOCK; c += 4u) {
      vec4 v = logits[quad + (c >> 2)];
      if (((marks >> c) & 15u) != 0u) {
        [[dont_unroll]] for (uint e = 0; e < 4; ++e) {
          if (((marks >> (c + e)) & 1u) != 0u) v[e] = penalised(v[e], block * SAMPLING_BLOCK + c + e, counted, repetitions);
        }
        logits[quad + (c >> 2)] = v;
      }
      if (((allowed >> c) & 15u) != 15u) {
        [[dont_unroll]] for (uint e = 0; e < 4; ++e) {
          if (((allowed >> (c + e)) & 1u) == 0u) v[e] = uintBitsToFloat(MINUS_INFINITY);
        }
        logits[quad + (c >> 2)] = v;
      }
      [[unroll]] for (uint e = 0; e < 4; ++e) largest = max(largest, c + e < used ? key_of(v[e]) : 0u);
    }
    scratch[words(SAMPLING_MAXIMA) + block] = largest;
    if (sum_up) scratch[words(SAMPLING_SUMS) + block] = floatBitsToUint(sum_of(block, largest));
  }
}
