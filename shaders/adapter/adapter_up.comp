#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "adapter/adapter_up.params.h"
#include "common/activation.glsl"
#include "common/columns.glsl"
#include "common/types.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = ADAPTER_UP_GATED_ID) const uint GATED = 0;
layout(constant_id = ADAPTER_UP_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = ADAPTER_UP_NUMBERS_ID) const uint ADAPTER_NUMBERS = ADAPTER_F32;
layout(push_constant) uniform Push { AdapterUpParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_UP_STEP);
READ_BUFFER(vec4, y, ADAPTER_UP_Y);
READ_BUFFER(float, h, ADAPTER_UP_H);
READ_BUFFER(uvec4, matrix, ADAPTER_UP_MATRIX);
WRITE_BUFFER(vec4, result, ADAPTER_UP_RESULT);

#include "adapter/numbers.glsl"
#include "adapter/row_adapter.glsl"

// Where quad `i` of the columns of a row lies, in quads of dwords, and whether its numbers are the second ones of the dwords.
uint place_of(uint i) { return ADAPTER_NUMBERS == ADAPTER_F32 ? i : (i >> 2) * 2u + (i & 1u); }
bool is_second(uint i) { return (i & 2u) != 0u; }

// What the adapter adds to quad `i` of the columns of a product. `at`: the matrix's first row, in its own quads of columns;
// `from`: of the row's h.
vec4 added(uint at, uint i, uint padded_quads, uint from, uint rank, float scale) {
  const uint row_quads = padded_quads / NUMBERS_OF_DWORD;
  const uint first = at / NUMBERS_OF_DWORD + place_of(i);
  vec4 sum = vec4(0.0);
  for (uint r = 0; r < rank; ++r) sum = fma(vec4(h[from + r]), numbers_of(matrix[first + r * row_quads], is_second(i)), sum);
  return scale * sum;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uvec4 adapter = row_adapter(row);
  const uint rank = adapter.x == 0u ? 0u : adapter.z;
  const float scale = uintBitsToFloat(adapter.y);
  const uint padded_quads = ((p.columns + 31u) >> 5) * 8u;
  const uint matrices = GATED != 0u ? 2u : 1u;
  const uint at = (max(adapter.x, 1u) - 1u) * matrices * p.rank * padded_quads;
  const uint from = p.h_first + row * p.h_stride;
  const uint y_at = (p.y_first + row * p.y_stride) >> 2;
  const uint to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (i < quads) { // a view's row may end here
      v = y[y_at + (GATED != 0u ? (i >> 1) * 4u + (i & 1u) : i)];
      v += added(at, i, padded_quads, from, rank, scale);
      [[unroll]] for (uint j = 0; j < 4u; ++j) v[j] = activate(ACTIVATION, v[j]);
      if (GATED != 0u) {
        const vec4 factor = y[y_at + (i >> 1) * 4u + 2u + (i & 1u)];
        v *= factor + added(at + p.rank * padded_quads, i, padded_quads, from + p.rank, rank, scale);
      }
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
