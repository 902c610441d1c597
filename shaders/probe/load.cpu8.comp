#version 460
// Reads `quads` x 16 bytes a workgroup in one of the ways that the cpu8 kernels know.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/cpu8.glsl"
#include "common/load.h"
#include "common/texels.h"
#include "probe/probe.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = PROBE_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(push_constant) uniform Push { ProbeParams p; };
READ_BUFFER(uvec4, source, PROBE_SOURCE);
TEXELS(source_texels, PROBE_TEXELS);
WRITE_BUFFER(uvec4, target, PROBE_TARGET);

void main() {
  const uint first = gl_WorkGroupID.x * p.quads;
  uvec4 sum = uvec4(0);
  for (uint i = 0; i < p.quads; i += 8u) {
    if (LOAD == LOAD_UNIFORM) {
      [[unroll]] for (uint c = 0; c < 4; ++c) {
        sum[c] ^= lane_select(AddressU32x4(p.source).d[first + i + 2u * c], AddressU32x4(p.source).d[first + i + 2u * c + 1u]);
      }
    } else {
      const uint at = first + i + LANE;
      sum ^= LOAD == LOAD_TEXEL ? texelFetch(source_texels, int(at)) : source[at];
    }
  }
  target[gl_GlobalInvocationID.x] = sum;
}
