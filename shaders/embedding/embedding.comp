#version 460
// A workgroup decodes part of one row's embedding, an invocation four columns at a time.
// variant: f32 WEIGHT_TYPE=0
// variant: f16 WEIGHT_TYPE=1
// variant: bf16 WEIGHT_TYPE=2
// variant: q8_0 WEIGHT_TYPE=3
// variant: q4_0 WEIGHT_TYPE=4
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/weight.glsl"
#include "embedding/embedding.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint CHUNK = 4;
layout(constant_id = 2) const uint INDEX = 0;
layout(push_constant) uniform Push { EmbeddingParams p; };
READ_BUFFER(uvec4, step_block, EMBEDDING_STEP);
READ_BUFFER(uint, table, EMBEDDING_TABLE);
READ_BUFFER(uint, scales, EMBEDDING_SCALES);
WRITE_BUFFER(vec4, result, EMBEDDING_RESULT);

// Columns 4j to 4j + 3 of a block, whose payload in this row starts at `at`.
vec4 decode_quad(uint at, uint j) {
  // decode_weight gets only the dwords that it will look at, moved to where those of columns 0 to 3 are.
  uint w[PAYLOAD];
#if WEIGHT_TYPE == TYPE_Q4_0
  const uint dword = j & 3u;
  w[0] = table[at + dword / CHUNK * (8u * CHUNK) + dword % CHUNK] >> (j >= 4u ? 4u : 0u);
#else
  [[unroll]] for (uint c = 0; c < PAYLOAD / 8; ++c) {
    const uint dword = j * (PAYLOAD / 8) + c;
    w[c] = table[at + dword / CHUNK * (8u * CHUNK) + dword % CHUNK];
  }
#endif
  return vec4(decode_weight(w, 0u), decode_weight(w, 1u), decode_weight(w, 2u), decode_weight(w, 3u));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint entry = min(step_block[STEP_HEADER_QUADS + row][INDEX], p.all_tiles * 8u - 1u);
  const uint tile = entry / 8u - p.first_tile;
  if (tile >= p.tiles) return; // another part of the table has it
  const uint lane = entry % 8u;
  const uint to = row * (p.out_stride >> 2);
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < p.blocks * 8u;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    const uint kb = i / 8u;
    float scale = p.scale;
#ifdef SCALED
    const vec2 pair = unpackHalf2x16(scales[(tile * ((p.blocks + 1u) >> 1) + (kb >> 1)) * 8u + lane]);
    scale *= (kb & 1u) == 0u ? pair.x : pair.y;
#endif
    result[to + i] = scale * decode_quad((tile * p.blocks + kb) * (PAYLOAD * 8u) + lane * CHUNK, i % 8u);
  }
}
