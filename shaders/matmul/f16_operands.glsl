// Operands of a product as 16-bit floats in shared memory, for kernels that multiply f16 matrices: ROWS rows of x and the
// rows of TILES tiles, DEPTH blocks of 32 columns each.
const uint LANE_BYTES = 16;
#include "matmul/tile_row.glsl"

const uint DEPTH = 2;
const uint PAIR_STRIDE = DEPTH * 16 + 4; // 16 bytes between rows spread them over the memory banks

shared f16vec2 x_f16[ROWS * PAIR_STRIDE];
shared f16vec2 weights_f16[TILES * 8 * PAIR_STRIDE];
shared float unscale[ROWS];    // a row's sums must be multiplied by this, because x was scaled
shared float row_factor[ROWS]; // row_scale()
shared float largest[gl_WorkGroupSize.x];

float most(vec4 v) {
  const vec4 size = abs(v);
  return max(max(size.x, size.y), max(size.z, size.w));
}

// Finds the rows' factors. Eight invocations share a row.
void scale_rows() {
  const uint lane = gl_LocalInvocationID.x % 8u;
  [[dont_unroll]] for (uint first = 0; first < ROWS; first += gl_WorkGroupSize.x / 8u) {
    const uint m = first + gl_LocalInvocationID.x / 8u;
    const uint at = x_row(min(m, ROWS - 1u)) * (p.x_stride >> 2);
    float own = 0.0;
    for (uint i = lane; i < p.blocks * 8u; i += 8u) own = max(own, most(x[at + i]));
    largest[gl_LocalInvocationID.x] = own;
    barrier();
    if (lane == 0u && m < ROWS) {
      for (uint i = 1; i < 8u; ++i) own = max(own, largest[gl_LocalInvocationID.x + i]);
      // 2^(e - 14) for a largest number of 2^e or just above.
      const int exponent = int(floatBitsToUint(own) >> 23) - 14;
      unscale[m] = uintBitsToFloat(uint(clamp(exponent, 1, 253)) << 23);
      row_factor[m] = row_scale(x_row(m));
    }
    barrier();
  }
}

// TOGETHER loads are in flight at once. Loops are not unrolled further, because CPU drivers would take long to compile.
void load_x(uint kb) {
  const uint TOGETHER = 4;
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < ROWS * DEPTH * 8u; i += TOGETHER * gl_WorkGroupSize.x) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      const uint at = i + j * gl_WorkGroupSize.x;
      if (at >= ROWS * DEPTH * 8u) break;
      const uint m = at / (DEPTH * 8u), quad = at % (DEPTH * 8u);
      vec4 v = vec4(0.0);
      if (kb + quad / 8u < p.blocks) v = x[x_row(m) * (p.x_stride >> 2) + kb * 8u + quad] * (1.0 / unscale[m]);
      x_f16[m * PAIR_STRIDE + quad * 2u] = f16vec2(v.xy);
      x_f16[m * PAIR_STRIDE + quad * 2u + 1u] = f16vec2(v.zw);
    }
  }
}

// An invocation loads a block of 32 weights of one row. Past the segment's last tile it loads the last one again; the result
// is not stored.
void load_weights(uint kb0) {
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < TILES * 8u * DEPTH; i += gl_WorkGroupSize.x) {
    const uint row = i % (TILES * 8u), lane = row % 8u, depth = i / (TILES * 8u), kb = kb0 + depth;
    const uint tile = min(tile0 + row / 8u, p.tiles - 1u);
    const uint out_at = row * PAIR_STRIDE + depth * 16u;
    if (kb >= p.blocks) {
      [[unroll]] for (uint j = 0; j < 16; ++j) weights_f16[out_at + j] = f16vec2(0.0);
      continue;
    }
    uint w[PAYLOAD];
    load_block(tile, kb, lane, w);
    float scale[SCALE_COUNT], minimum[SCALE_COUNT];
    load_scales(tile, kb, lane, scale, minimum);
    [[unroll]] for (uint j = 0; j < 16; ++j) {
      const uint scale_index = j / (16 / SCALE_COUNT);
      vec2 pair = vec2(decode_weight(w, 2 * j), decode_weight(w, 2 * j + 1)) * scale[scale_index];
#ifdef MINIMUMS
      pair -= minimum[scale_index];
#endif
      weights_f16[out_at + j] = f16vec2(clamp(pair, -65504.0, 65504.0));
    }
  }
}
