#version 460
// A workgroup moves the key or the value of one position and head.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
#extension GL_GOOGLE_include_directive : require
#include "common/half.glsl"
#include "common/types.glsl"
#include "position/cache_shift.params.h"
#include "position/cos_sin.glsl"
#include "position/rotary_store.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = SHIFT_PAIRS_ID) const uint PAIRS = ROTARY_PAIRS_NONE;
layout(constant_id = SHIFT_DIM_ID) const uint ROTARY_DIM = 0;
layout(constant_id = SHIFT_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(push_constant) uniform Push { CacheShiftParams p; };
READ_BUFFER(uint, table, SHIFT_TABLE);
WRITE_BUFFER(uint, stored_keys, SHIFT_KEYS);
WRITE_BUFFER(uint, stored_values, SHIFT_VALUES);

const uint HALF = ROTARY_DIM / 2;
#if CACHE_TYPE == 0
const uint IN_WORD = 1;
#else
const uint IN_WORD = 2;
#endif
const uint QUAD = 4 * IN_WORD; // dimensions of the 16 bytes that a tile has of a position

// Where the dimension's word is. `head` counts those of all sequences.
uint key_word(uint head, uint position, uint dimension) {
  const uint tile = head * (p.capacity / 8u) + position / 8u;
  const uint quad = (tile * (HEAD_DIM / QUAD) + dimension / QUAD) * 8u + position % 8u;
  return quad * 4u + dimension % QUAD / IN_WORD;
}

float key_at(uint head, uint position, uint dimension) {
  const uint word = stored_keys[key_word(head, position, dimension)];
#if CACHE_TYPE == 0
  return uintBitsToFloat(word);
#else
  return unpackHalf2x16(word)[dimension % 2u];
#endif
}

// The key's dimension, as it is `distance` positions earlier.
float rotated(uint head, uint position, uint dimension) {
  const float own = key_at(head, position, dimension);
  if (PAIRS == ROTARY_PAIRS_NONE || dimension >= ROTARY_DIM) return own;
  const bool split = PAIRS == ROTARY_PAIRS_HALF_SPLIT;
  const uint pair = split ? dimension % HALF : dimension / 2u;
  const bool first = split ? dimension < HALF : dimension % 2u == 0u;
  const float other = key_at(head, position, split ? (first ? dimension + HALF : dimension - HALF) : dimension ^ 1u);
  const vec2 r = cos_sin(p.distance, uvec2(table[2u * pair], table[2u * pair + 1u]));
  return own * r.x + (first ? other : -other) * r.y;
}

void main() {
  const uint to = p.first + gl_WorkGroupID.x, from = to + p.distance;
  const uint head = p.sequence * p.kv_heads + gl_WorkGroupID.y;
  if (gl_WorkGroupID.z == 1u) {
    const uint words = HEAD_DIM / IN_WORD, first = head * p.capacity;
    for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x)
      stored_values[(first + to) * words + i] = stored_values[(first + from) * words + i];
    return;
  }
  for (uint i = gl_LocalInvocationID.x * IN_WORD; i < HEAD_DIM; i += gl_WorkGroupSize.x * IN_WORD) {
#if CACHE_TYPE == 0
    const uint word = floatBitsToUint(rotated(head, from, i));
#else
    const vec2 a = clamp(vec2(rotated(head, from, i), rotated(head, from, i + 1u)), -65504.0, 65504.0);
    const uint word = packHalf2x16(vec2(round_to_half(a.x), round_to_half(a.y)));
#endif
    stored_keys[key_word(head, to, i)] = word;
  }
}
