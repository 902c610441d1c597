#version 460
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "probe/probe.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { ProbeParams p; };
READ_BUFFER(uvec4, source, PROBE_SOURCE);
WRITE_BUFFER(uvec4, target, PROBE_TARGET);

void main() {
  const uint first = gl_WorkGroupID.x * p.quads + gl_LocalInvocationID.x;
  for (uint i = 0; i < p.quads; i += gl_WorkGroupSize.x) target[first + i] = source[first + i];
}
