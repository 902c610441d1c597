#version 460
// A workgroup decodes part of one row's embedding, an invocation 32 columns at a time.
// variant: f32 WEIGHT_TYPE=0
// variant: f16 WEIGHT_TYPE=1
// variant: bf16 WEIGHT_TYPE=2
// variant: q8_0 WEIGHT_TYPE=3
// variant: q4_0 WEIGHT_TYPE=4
// variant: q4_1 WEIGHT_TYPE=5
// variant: q5_0 WEIGHT_TYPE=6
// variant: q5_1 WEIGHT_TYPE=7
// variant: q2_k WEIGHT_TYPE=8
// variant: q3_k WEIGHT_TYPE=9
// variant: q4_k WEIGHT_TYPE=10
// variant: q5_k WEIGHT_TYPE=11
// variant: q6_k WEIGHT_TYPE=12
// variant: iq4_nl WEIGHT_TYPE=13
// variant: iq4_xs WEIGHT_TYPE=14
// variant: mxfp4 WEIGHT_TYPE=15
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

// Dword c of the payload of block kb in row `lane` of a tile.
uint load_dword(uint tile, uint kb, uint lane, uint c) {
  const uint width = min(CHUNK, PAYLOAD - c / CHUNK * CHUNK); // of the chunk it lies in
  return table[(tile * p.blocks + kb) * (PAYLOAD * 8u) + c / CHUNK * CHUNK * 8u + lane * width + c % CHUNK];
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint entry = min(step_block[STEP_HEADER_QUADS + row][INDEX], p.all_tiles * 8u - 1u);
  const uint tile = entry / 8u - p.first_tile;
  if (tile >= p.tiles) return; // another part of the table has it
  const uint lane = entry % 8u;
  const uint to = row * (p.out_stride >> 2);
  for (uint kb = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; kb < p.blocks;
       kb += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    float scale[PARTS], minimum[PARTS];
    scale[0] = 1.0;
#ifdef SCALED
    const uint first_scale = tile * scale_dwords(p.blocks);
    block_scales(scales[(first_scale + head_word(kb)) * 8u + lane], scales[(first_scale + scale_word(kb)) * 8u + lane],
                 kb % BLOCKS_OF_WORD, scale, minimum);
#endif
    uint w[PAYLOAD];
    [[unroll]] for (uint c = 0; c < PAYLOAD; ++c) w[c] = load_dword(tile, kb, lane, c);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      vec4 values;
      [[unroll]] for (uint i = 0; i < 4; ++i) values[i] = scale[j / (8 / PARTS)] * decode_weight(w, 4 * j + i);
#ifdef MINIMUMS
      values -= minimum[j / (8 / PARTS)];
#endif
      result[to + kb * 8u + j] = p.scale * values;
    }
  }
}
