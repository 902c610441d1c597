#version 460
// A workgroup takes some heads of one row, an invocation four dimensions of a head at a time.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
// variant: f16_q8_0 KEY_TYPE=1 VALUE_TYPE=2
// variant: q8_0_f16 KEY_TYPE=2 VALUE_TYPE=1
// variant: q4_0 CACHE_TYPE=3
// variant: q8_0_q4_0 KEY_TYPE=2 VALUE_TYPE=3
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "position/cos_sin.glsl"
#include "position/rotary_store.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = ROTARY_PAIRS_ID) const uint PAIRS = ROTARY_PAIRS_NONE;
layout(constant_id = ROTARY_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(constant_id = ROTARY_DIM_ID) const uint ROTARY_DIM = 0;
layout(constant_id = ROTARY_HEADS_ID) const uint HEADS = 1;
layout(constant_id = ROTARY_NORMS_ID) const uint NORMS = 0;
layout(constant_id = ROTARY_GROWTH_ID) const uint GROWTH = 0;
layout(constant_id = ROTARY_GROWTH_LENGTH_ID) const uint GROWTH_LENGTH = 0;
layout(constant_id = ROTARY_GROWTH_START_ID) const uint GROWTH_START = 0;
layout(constant_id = ROTARY_PARTS_ID) const uint PARTS = CACHE_PARTS_NONE;
layout(constant_id = ROTARY_PLACES_ID) const uint PLACES = ROTARY_PLACES_NONE;
layout(constant_id = ROTARY_TEXT_PAIRS_ID) const uint TEXT_PAIRS = 0;
layout(constant_id = ROTARY_DOWN_PAIRS_ID) const uint DOWN_PAIRS = 0;
layout(constant_id = ROTARY_SHARED_ID) const uint SHARED = 0;
layout(push_constant) uniform Push { RotaryStoreParams p; };
READ_BUFFER(uvec4, step_block, ROTARY_STEP);
const uint LOCAL_HEADS = HEADS;
#define SLOT_Q ROTARY_Q
#define SLOT_K ROTARY_K
#define SLOT_V ROTARY_V
#define SLOT_TABLE ROTARY_TABLE
#define SLOT_KEYS ROTARY_KEYS
#define SLOT_VALUES ROTARY_VALUES
#define ROW_BUFFER READ_BUFFER
#define CACHE_BUFFER WRITE_BUFFER
#define PART_FIRST p.part_first
#include "position/rotary.glsl"

layout(set = 0, binding = ROTARY_RESULT, std430) writeonly buffer result_quads_buffer { vec4 result_quads[]; };
layout(set = 0, binding = ROTARY_RESULT, std430) writeonly buffer result_buffer { float result[]; };

uint global_head(uint local_head) { return gl_WorkGroupID.y * HEADS + local_head; }

void keep_query(uint row, uint local_head, uint query, uint quad, vec4 a) {
  const uint at = row * p.out_stride + query * HEAD_DIM;
  if (BY_FOURS) {
    result_quads[at / 4u + quad] = a;
  } else {
    for (uint j = 0; j < 4u; ++j) {
      if (quad * 4u + j < HEAD_DIM) result[at + quad * 4u + j] = a[j];
    }
  }
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  rotate_and_store(row, min(HEADS, p.heads + p.kv_heads + p.value_heads - global_head(0u)));

  // The zeros after the queries.
  if (gl_WorkGroupID.y == 0u) {
    const uint columns = p.heads * HEAD_DIM;
    for (uint i = columns + gl_LocalInvocationID.x; i < (columns + 31u) / 32u * 32u; i += gl_WorkGroupSize.x) {
      result[row * p.out_stride + i] = 0.0;
    }
  }
}
