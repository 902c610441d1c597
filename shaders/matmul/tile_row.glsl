// How an invocation that takes one row of a tile loads a block of it. LANE_BYTES: as common/packed_row.glsl has it.
#define PACKED_DWORD(i) weight_dwords[i]
#include "common/packed_row.glsl"

// The payload of block kb of a tile's row.
void load_block(uint tile, uint kb, uint row, out uint w[PAYLOAD]) {
  const uint at = (tile * p.blocks + kb) * (PAYLOAD * 2);
  if (LANE_BYTES < 16u) {
    [[unroll]] for (uint c = 0; c < PAYLOAD; ++c) w[c] = packed_dword(at * 4u, row, c, PAYLOAD);
    return;
  }
  [[unroll]] for (uint c = 0; c < PAYLOAD / 4; ++c) {
    const uvec4 quad = weights[at + c * 8u + row];
    w[4 * c] = quad.x;
    w[4 * c + 1] = quad.y;
    w[4 * c + 2] = quad.z;
    w[4 * c + 3] = quad.w;
  }
  [[unroll]] for (uint c = PAYLOAD / 4 * 4; c < PAYLOAD; ++c) w[c] = packed_dword(at * 4u, row, c, PAYLOAD);
}

// The dwords with its scales and minimums, to be unpacked when they have come.
uvec2 load_scale_words(uint tile, uint kb, uint row) {
#ifdef SCALED
  const uint first = tile * scale_dwords(p.blocks);
  return uvec2(scales[(first + head_word(kb)) * 8u + row], scales[(first + scale_word(kb)) * 8u + row]);
#else
  return uvec2(0u);
#endif
}

void unpack_scales(uvec2 words, uint kb, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  scale[0] = 1.0;
#ifdef SCALED
  block_scales(words.x, words.y, kb % BLOCKS_OF_WORD, scale, minimum);
#endif
}

void load_scales(uint tile, uint kb, uint row, out float scale[SCALE_COUNT], out float minimum[SCALE_COUNT]) {
  unpack_scales(load_scale_words(tile, kb, row), kb, scale, minimum);
}
