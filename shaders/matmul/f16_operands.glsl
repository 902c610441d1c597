// Operands of a product as 16-bit floats in shared memory, for kernels that multiply f16 matrices: ROWS rows of x and the
// rows of TILES tiles, DEPTH blocks of 32 columns each. What comes next is loaded into registers while what is there is
// multiplied.
const uint LANE_BYTES = 16;
#include "matmul/tile_row.glsl"

const uint ROW_QUADS = DEPTH * HALVES_BLOCK_QUADS;
const uint QUAD_STRIDE = ROW_QUADS + 1; // 16 bytes between rows spread them over the memory banks

// The rows of x, then those of the tiles, of one pass or of two. After the last pass the results pass through it.
const uint WEIGHTS_F16 = ROWS * QUAD_STRIDE;
const uint BUFFER_QUADS = (ROWS + TILES * 8) * QUAD_STRIDE;
const uint OPERAND_QUADS = BUFFERS * BUFFER_QUADS;
shared uvec4 operands[OPERAND_QUADS > STRIP_QUADS ? OPERAND_QUADS : STRIP_QUADS];

const uint X_LOADS = (ROWS * ROW_QUADS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
// Blocks of 32 weights. Where there are few, two invocations share the decoding of one: so that subgroups of all SIMD units
// decode. An invocation's number divided by the blocks is its part: a subgroup has one part.
const uint BLOCKS = TILES * 8 * DEPTH;
#if defined(BITS)
const uint PARTS = BLOCKS > 64 ? 1 : BLOCKS * 2 <= gl_WorkGroupSize.x ? 2 : 1;
#elif defined(WEIGHT_TYPE_F16)
// Halves are only copied, by as many invocations as there are.
const uint PARTS = BLOCKS * 4 <= gl_WorkGroupSize.x ? 4 : BLOCKS * 2 <= gl_WorkGroupSize.x ? 2 : 1;
#else
const uint PARTS = 1;
#endif
const uint PART_QUADS = HALVES_BLOCK_QUADS / PARTS;
const uint WEIGHT_LOADS = (BLOCKS * PARTS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
// What an invocation has loaded of the weights: blocks of one row, or parts of them.
#ifdef WEIGHT_TYPE_F16
uvec4 weights_ahead[WEIGHT_LOADS][PART_QUADS];
#else
uint weights_ahead[WEIGHT_LOADS][PAYLOAD];
uvec2 scales_ahead[WEIGHT_LOADS];
#endif

// What an invocation has loaded of x.
uint x_place[X_LOADS]; // in x_halves, for the first blocks
uvec4 x_ahead[X_LOADS];

void find_x() {
  [[unroll]] for (uint j = 0; j < X_LOADS; ++j) {
    const uint at = j * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    x_place[j] = x_row(min(at / ROW_QUADS, ROWS - 1u)) * p.blocks * HALVES_BLOCK_QUADS + at % ROW_QUADS;
  }
}

// The blocks of k that this workgroup takes.
uint first_block() { return SPLIT == 1u ? gl_WorkGroupID.z * p.part_blocks : 0u; }
uint end_block() { return SPLIT == 1u ? min((gl_WorkGroupID.z + 1u) * p.part_blocks, p.blocks) : p.blocks; }

// No load depends on a branch, so that all are under way at once: past the last tile or block the last one is loaded again.
void load_ahead(uint kb0) {
  const uint last = end_block() - 1u;
  [[unroll]] for (uint j = 0; j < WEIGHT_LOADS; ++j) {
    const uint at = j * gl_WorkGroupSize.x + gl_LocalInvocationID.x, i = at % BLOCKS;
    const uint row = i % (TILES * 8u), kb = min(kb0 + i / (TILES * 8u), last);
    const uint tile = min(tile0 + row / 8u, p.tiles - 1u);
#ifdef WEIGHT_TYPE_F16
    const uint quad = ((tile * p.blocks + kb) * HALVES_BLOCK_QUADS + min(at / BLOCKS, PARTS - 1u) * PART_QUADS) * 8u + row % 8u;
    [[unroll]] for (uint c = 0; c < PART_QUADS; ++c) weights_ahead[j][c] = weights[quad + c * 8u];
#else
    load_block(tile, kb, row % 8u, weights_ahead[j]);
    scales_ahead[j] = load_scale_words(tile, kb, row % 8u);
#endif
  }
  [[unroll]] for (uint j = 0; j < X_LOADS; ++j) {
    const uint depth = (j * gl_WorkGroupSize.x + gl_LocalInvocationID.x) % ROW_QUADS / HALVES_BLOCK_QUADS;
    x_ahead[j] = x_halves[x_place[j] + (min(kb0 + depth, last) - depth) * HALVES_BLOCK_QUADS];
  }
}

#ifndef WEIGHT_TYPE_F16
// Weights outside the range of f16 are clamped.
uint weight_pair(uint w[PAYLOAD], uint pair, float scale[SCALE_COUNT], float minimum[SCALE_COUNT]) {
  const uint scale_index = pair / (16 / SCALE_COUNT);
  vec2 both;
#ifdef MANTISSA_CODES
  if (CODES == CODES_MANTISSA) {
    const uint j = pair / 2u, i = pair % 2u * 2u; // powers of two change no bit
    both = vec2(placed_code(w, j, i) * (scale[scale_index] * code_unit(j, i)),
                placed_code(w, j, i + 1u) * (scale[scale_index] * code_unit(j, i + 1u)));
  } else
#endif
  both = vec2(decode_weight(w, 2 * pair), decode_weight(w, 2 * pair + 1)) * scale[scale_index];
#ifdef MINIMUMS
  both -= minimum[scale_index];
#endif
  return packFloat2x16(clamp(f16vec2(both), f16vec2(-65504.0), f16vec2(65504.0)));
}
#endif

// Puts into shared memory what was loaded, from quad `first` on. Blocks past the end become zeros, where a pass has others.
void store_loaded(uint kb0, uint first) {
  [[unroll]] for (uint j = 0; j < X_LOADS; ++j) {
    const uint at = j * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    if (at >= ROWS * ROW_QUADS) continue;
    const bool inside = DEPTH == 1u || kb0 + at % ROW_QUADS / HALVES_BLOCK_QUADS < end_block();
    operands[first + at / ROW_QUADS * QUAD_STRIDE + at % ROW_QUADS] = inside ? x_ahead[j] : uvec4(0u);
  }
  [[unroll]] for (uint j = 0; j < WEIGHT_LOADS; ++j) {
    const uint at = j * gl_WorkGroupSize.x + gl_LocalInvocationID.x, i = at % BLOCKS, part = at / BLOCKS;
    const uint row = i % (TILES * 8u), depth = i / (TILES * 8u);
    if (part >= PARTS) continue;
    const bool inside = DEPTH == 1u || kb0 + depth < end_block();
    const uint to = first + WEIGHTS_F16 + row * QUAD_STRIDE + depth * HALVES_BLOCK_QUADS;
#ifdef WEIGHT_TYPE_F16
    [[unroll]] for (uint c = 0; c < PART_QUADS; ++c) {
      operands[to + part * PART_QUADS + c] = inside ? weights_ahead[j][c] : uvec4(0u);
    }
#else
    float scale[SCALE_COUNT], minimum[SCALE_COUNT];
    unpack_scales(scales_ahead[j], kb0 + depth, scale, minimum);
    [[unroll]] for (uint c = 0; c < HALVES_BLOCK_QUADS; ++c) {
      if (PARTS > 1u && c / PART_QUADS != part) continue;
      uvec4 quad;
      [[unroll]] for (uint n = 0; n < 4; ++n) quad[n] = weight_pair(weights_ahead[j], 4 * c + n, scale, minimum);
      operands[to + c] = inside ? quad : uvec4(0u);
    }
#endif
  }
}
