#version 460
// A workgroup decodes part of one row's embedding, an invocation four columns at a time.
// variant: {weight_type}
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/weight.glsl"
#include "embedding/embedding.params.h"
#include "embedding/prompt_rows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = EMBEDDING_LANE_BYTES_ID) const uint LANE_BYTES = 16;
layout(constant_id = EMBEDDING_INDEX_ID) const uint INDEX = EMBEDDING_BY_TOKEN;
layout(constant_id = EMBEDDING_HAS_OTHERS_ID) const uint HAS_OTHERS = 0;
layout(push_constant) uniform Push { EmbeddingParams p; };
READ_BUFFER(uvec4, step_block, EMBEDDING_STEP);
READ_BUFFER(uint, table, EMBEDDING_TABLE);
READ_BUFFER(uint, scales, EMBEDDING_SCALES);
WRITE_BUFFER(vec4, result, EMBEDDING_RESULT);
READ_BUFFER(vec4, others, EMBEDDING_OTHERS);

#define PACKED_DWORD(i) table[i]
#include "common/packed_row.glsl"

// Columns 4j to 4j + 3 of a block, before their scale.
vec4 decode_quad(uint block, uint lane, uint j) {
  // decode_weight gets only the dwords that it needs, moved to the place of columns 0 to 3.
  uint w[PAYLOAD];
#ifdef BITS
  [[unroll]] for (uint plane = 8u, dword = 0u; plane != 0u; plane >>= 1u) {
    if ((BITS & plane) != 0u) {
      w[dword] = packed_dword(block, lane, dword + j % plane, PAYLOAD) >> (j / plane * plane);
      dword += plane;
    }
  }
#else
  [[unroll]] for (uint c = 0; c < PAYLOAD / 8; ++c) w[c] = packed_dword(block, lane, j * (PAYLOAD / 8) + c, PAYLOAD);
#endif
  return vec4(decode_weight(w, 0u), decode_weight(w, 1u), decode_weight(w, 2u), decode_weight(w, 3u));
}

// The table's row for a row of the step, clamped to the table; of a token that it lacks the first, as in transformers'
// Gemma 3n.
uint find_entry(uint row) {
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  uint entry = (token.x & PROMPT_ROW) != 0u ? 0u : token.x - p.first_token;
  if (INDEX == EMBEDDING_BY_POSITION) entry = token.y - min(token.w, token.y);
  if (INDEX == EMBEDDING_BY_TYPE) entry = step_block[p.details + row].z;
  const uint last = p.rows - 1u;
  if (INDEX == EMBEDDING_BY_TOKEN && entry > last) entry = 0u;
  return min(entry, last - min(p.offset, last)) + min(p.offset, last);
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint token = step_block[STEP_HEADER_QUADS + row].x;
  if (HAS_OTHERS != 0u && token - p.first_token >= p.rows) { // below the first it wraps round
    if (p.first_tile != 0u) return;
    for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < p.blocks * 8u;
         i += gl_NumWorkGroups.y * gl_WorkGroupSize.x)
      result[row * (p.out_stride >> 2) + i] = others[row * (p.others_stride >> 2) + i];
    return;
  }
  const uint entry = find_entry(row);
  const uint tile = entry / 8u - p.first_tile;
  if (tile >= p.tiles) return; // another part of the table has it
  const uint lane = entry % 8u;
  const uint to = row * (p.out_stride >> 2);
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < p.blocks * 8u;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    const uint kb = i / 8u;
    const uint j = i % 8u;
    vec4 values = decode_quad((tile * p.blocks + kb) * (PAYLOAD * 8u), lane, j);
#ifdef SCALED
    float scale[SCALE_COUNT], minimum[SCALE_COUNT];
    const uint first_scale = tile * scale_dwords(p.blocks);
    block_scales(scales[(first_scale + head_word(kb)) * 8u + lane], scales[(first_scale + scale_word(kb)) * 8u + lane],
                 kb % BLOCKS_OF_WORD, scale, minimum);
    values *= j < 4u ? scale[0] : scale[SCALE_COUNT - 1];
#ifdef MINIMUMS
    values -= j < 4u ? minimum[0] : minimum[SCALE_COUNT - 1];
#endif
#endif
    result[to + i] = p.scale * values;
  }
}
