#version 460
// A workgroup takes a row: finds its largest number, then rounds it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "common/types.glsl"
#include "matmul/halve_rows.params.h"

layout(local_size_x = 128, local_size_x_id = 0) in;
layout(push_constant) uniform Push { HalveRowsParams p; };
READ_BUFFER(uvec4, step_block, HALVE_STEP);
READ_BUFFER(vec4, x, HALVE_X);
WRITE_BUFFER(uvec4, halves, HALVE_HALVES);

const uint WORKGROUP = gl_WorkGroupSize.x; // a power of two

shared float largest[WORKGROUP];
shared float squares[WORKGROUP];

float most(vec4 v) {
  const vec4 size = abs(v);
  return max(max(size.x, size.y), max(size.z, size.w));
}

void main() {
  const uint row = gl_WorkGroupID.x, own = gl_LocalInvocationID.x;
  if (row >= step_block[0][p.rows_kind] * p.rows_each) return;
  const uint first = row * (p.x_stride >> 2);
  float own_largest = 0.0;
  for (uint i = own; i < p.blocks * 8u; i += WORKGROUP) own_largest = max(own_largest, most(x[first + i]));
  vec4 sums_of_squares = vec4(0.0);
  for (uint i = own; i * 32u < p.scale_columns; i += WORKGROUP) sums_of_squares += x[first + (p.scale_sums >> 2) + i];
  largest[own] = own_largest;
  squares[own] = (sums_of_squares.x + sums_of_squares.y) + (sums_of_squares.z + sums_of_squares.w);
  barrier();
  [[unroll]] for (uint n = WORKGROUP / 2; n > 0u; n /= 2) {
    if (own < n) {
      largest[own] = max(largest[own], largest[own + n]);
      squares[own] += squares[own + n];
    }
    barrier();
  }
  // 2^(e - 14) for a largest number of 2^e or just above.
  const int exponent = int(floatBitsToUint(largest[0]) >> 23) - 14;
  const float unscale = uintBitsToFloat(uint(clamp(exponent, 1, 253)) << 23);
  if (own == 0u) {
    float scale = 1.0;
    if (p.scale_columns > 0u) scale = 1.0 / sqrt(squares[0] / float(p.scale_columns) + p.scale_eps);
    halves[p.factors + row] = uvec4(floatBitsToUint(unscale), floatBitsToUint(scale), 0u, 0u);
  }
  for (uint i = own; i < p.blocks * HALVES_BLOCK_QUADS; i += WORKGROUP) {
    const vec4 low = x[first + i * 2u] * (1.0 / unscale), high = x[first + i * 2u + 1u] * (1.0 / unscale);
    halves[row * p.blocks * HALVES_BLOCK_QUADS + i] = uvec4(packFloat2x16(f16vec2(low.xy)), packFloat2x16(f16vec2(low.zw)),
                                                            packFloat2x16(f16vec2(high.xy)), packFloat2x16(f16vec2(high.zw)));
  }
}
