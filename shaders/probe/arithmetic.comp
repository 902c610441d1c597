#version 460
// Fused multiply-adds in independent chains, as many as hide the latency.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "probe/probe.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { ProbeParams p; };
WRITE_BUFFER(uvec4, target, PROBE_TARGET);

void main() {
  const float factor = 1.0 - 1.0 / float(p.quads + gl_GlobalInvocationID.x);
  vec4 a = vec4(gl_LocalInvocationID.x), b = a + 1.0, c = a + 2.0;
  for (uint i = 0; i < p.quads; ++i) {
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      a = fma(a, vec4(factor), vec4(factor));
      b = fma(b, vec4(factor), vec4(factor));
      c = fma(c, vec4(factor), vec4(factor));
    }
  }
  target[gl_GlobalInvocationID.x] = floatBitsToUint(a + b + c);
}
