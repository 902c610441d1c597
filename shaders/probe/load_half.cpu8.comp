#version 460
// Adds up `quads` x 8 halves a workgroup, which the lanes get in one of the two ways that the cpu8 kernels know.
// variant: - needs=half8 HALVES
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/cpu8.glsl"
#include "probe/probe.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = PROBE_LOAD_ID) const uint SIDE_BY_SIDE = 0;
layout(push_constant) uniform Push { ProbeParams p; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressF16x4 { f16vec4 d[]; };
WRITE_BUFFER(vec4, target, PROBE_TARGET);

void main() {
  const uint first = gl_WorkGroupID.x * p.quads;
  vec4 sum = vec4(0.0);
  for (uint i = 0; i < p.quads; i += 4u) {
    if (SIDE_BY_SIDE != 0u) {
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        const uint at = 2u * (first + i + c);
        sum[c] += float(lane_select(AddressF16x4(p.source).d[at], AddressF16x4(p.source).d[at + 1u]));
      }
    } else {
      [[unroll]] for (uint c = 0; c < 2; ++c) {
        const uint at = first + i + 2u * c;
        const vec2 pair = unpackHalf2x16(lane_select(AddressU32x4(p.source).d[at], AddressU32x4(p.source).d[at + 1u]));
        sum[2u * c] += pair.x;
        sum[2u * c + 1u] += pair.y;
      }
    }
  }
  target[gl_GlobalInvocationID.x] = sum;
}
