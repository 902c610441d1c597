// Products in which a workgroup's invocations share the columns: each eight neighbouring lanes of a subgroup take a slice of
// k and in it a row of every tile each. The slices' sums are added within subgroups by shuffles, and then over the
// workgroup's subgroups, in an order that does not depend on ROWS or TILES.
#include "matmul/matmul.params.h"
#include "common/subgroup.glsl"

#define LANE (SUBGROUP_LANE % 8u)

layout(constant_id = MATMUL_SUBGROUP_ID) const uint SUBGROUP = 32; // a power of two, at least 8

// By shuffles: subgroupAdd ends the process on some drivers that advertise it.
float lane_sum(float a) {
  a += subgroupShuffleXor(a, 1u);
  a += subgroupShuffleXor(a, 2u);
  return a + subgroupShuffleXor(a, 4u);
}

#include "matmul/portable.glsl"

const uint SLICES = gl_WorkGroupSize.x / 8;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
shared float partial[ROWS * TILES * SUBGROUPS * 8];

uint own_slice() { return SUBGROUP_NUMBER * (SUBGROUP / 8) + SUBGROUP_LANE / 8u; }

// A block of each tile as it was loaded. The next one is under way while this one is added.
uint ahead[TILES][PAYLOAD];
uvec2 scales_ahead[TILES];

void load_ahead(uint kb) {
  [[unroll]] for (uint t = 0; t < TILES; ++t) {
    load_block(tile0 + t, kb, LANE, ahead[t]);
    scales_ahead[t] = load_scale_words(tile0 + t, kb, LANE);
  }
}

#ifdef SCALE_AHEAD
// Of each row's scale (row_scale.glsl): this invocation's part of the sum of squares. Its loads are under way together with
// those of the first block, so that nobody waits for them at the end.
float own_squares[ROWS];
shared float squares[ROWS * SUBGROUPS];

void load_squares() {
  uint at[ROWS];
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    own_squares[m] = 0.0;
    at[m] = (x_row(m) * p.x_stride + p.scale_sums) >> 2;
  }
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) == 0u) return;
  // The rows' loop is the inner one: one around another is not unrolled, and its array would lie in memory.
  for (uint i = own_slice() * 8u + LANE; i * 32u < p.scale_columns; i += gl_WorkGroupSize.x) {
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      const vec4 four = x[at[m] + i];
      own_squares[m] += (four.x + four.y) + (four.z + four.w);
    }
  }
}

void share_squares() {
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) == 0u) return;
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    float all = lane_sum(own_squares[m]);
    [[unroll]] for (uint n = 8; n < SUBGROUP; n *= 2) all += EXCHANGE(all, n);
    if (SUBGROUP_LANE == 0u) squares[m * SUBGROUPS + SUBGROUP_NUMBER] = all;
  }
}

float scale_of(uint m) {
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) == 0u) return 1.0;
  float all = 0.0;
  for (uint s = 0; s < SUBGROUPS; ++s) all += squares[m * SUBGROUPS + s];
  return 1.0 / sqrt(all / float(p.scale_columns) + p.scale_eps);
}
#else
void share_squares() {}
float scale_of(uint m) { return row_scale(x_row(m)); }
#endif

// Adds up what the slices have, and stores it.
void store_sums(float sum[ROWS][TILES]) {
  share_squares();
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    [[unroll]] for (uint t = 0; t < TILES; ++t) {
      float all = sum[m][t];
      [[unroll]] for (uint n = 8; n < SUBGROUP; n *= 2) all += EXCHANGE(all, n);
      if (SUBGROUP_LANE < 8u) partial[((m * TILES + t) * SUBGROUPS + SUBGROUP_NUMBER) * 8u + LANE] = all;
    }
  }
  barrier();
  for (uint i = own_slice(); i < ROWS * (TILES / PAIR); i += SLICES) {
    const uint m = i % ROWS, t = i / ROWS * PAIR;
    const uint row = result_row(m);
    if (row == MATMUL_NOTHING) continue;
    float first = 0.0, second = 0.0;
    for (uint s = 0; s < SUBGROUPS; ++s) {
      first += partial[((m * TILES + t) * SUBGROUPS + s) * 8u + LANE];
      if (PAIR == 2u) second += partial[((m * TILES + t + 1u) * SUBGROUPS + s) * 8u + LANE];
    }
    const float square = store_lane(row, column_tile0 + t, LANE, scale_of(m), first, second);
    if ((EPILOGUE & EPILOGUE_NEXT_NORM) != 0u) store_squares(row, column_tile0 + t, lane_sum(square));
  }
}
