#version 460
// A workgroup takes a part of one row, an invocation every so many columns of it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "heads/join_heads.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { JoinHeadsParams p; };
READ_BUFFER(uvec4, step_block, JOIN_HEADS_STEP);
READ_BUFFER(float, first, JOIN_HEADS_FIRST);
READ_BUFFER(float, second, JOIN_HEADS_SECOND);
WRITE_BUFFER(float, result, JOIN_HEADS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint width = gl_WorkGroupSize.x * gl_NumWorkGroups.y;
  for (uint i = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < p.result_row; i += width) {
    const uint head = i / p.result_head, d = i % p.result_head;
    float value = 0.0;
    if (head < p.heads && d < p.first_columns) {
      value = first[p.first_at + row * p.first_row + head * p.first_head + d];
    } else if (head < p.heads && d < p.first_columns + p.second_columns) {
      value = second[p.second_at + row * p.second_row + head * p.second_head + d - p.first_columns];
    }
    result[row * p.result_row + i] = value;
  }
}
