#version 460
// A workgroup to an output. Its invocations look for the row in equal parts, and then copy it four columns at a time.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "pooling/pick_rows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = PICK_ROWS_RULE_ID) const uint RULE = PICK_ROWS_LAST;
layout(push_constant) uniform Push { PickRowsParams p; };
READ_BUFFER(uvec4, step_block, PICK_ROWS_STEP);
READ_BUFFER(vec4, x, PICK_ROWS_X);
WRITE_BUFFER(vec4, result, PICK_ROWS_RESULT);

#include "pooling/input_rows.glsl"

shared uint largest;
shared uint found;

// The row of an input of `count` rows from `first` on.
uint picked(uint first, uint count) {
  const uint last = first + count - 1u;
  if (RULE == PICK_ROWS_LAST) return last;
  if (RULE == PICK_ROWS_NUMBERED) return first + min(p.token, count - 1u);
  if (gl_LocalInvocationID.x == 0u) {
    largest = 0u;
    found = last;
  }
  barrier();
  if (RULE == PICK_ROWS_LARGEST) {
    for (uint i = gl_LocalInvocationID.x; i < count; i += gl_WorkGroupSize.x) {
      atomicMax(largest, step_block[STEP_HEADER_QUADS + first + i].x);
    }
    barrier();
  }
  const uint wanted = RULE == PICK_ROWS_LARGEST ? largest : p.token;
  for (uint i = gl_LocalInvocationID.x; i < count; i += gl_WorkGroupSize.x) {
    if (step_block[STEP_HEADER_QUADS + first + i].x == wanted) atomicMin(found, first + i);
  }
  barrier();
  return found;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint first = step_block[STEP_HEADER_QUADS + p.capacity + row].x;
  const uint count = rows_from(first);
  const uint from = count > 0u ? picked(first, count) * (p.x_stride >> 2) : 0u;
  const uint to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_LocalInvocationID.x; i < padded_quads; i += gl_WorkGroupSize.x) {
    const vec4 v = count > 0u && i < quads ? x[from + i] : vec4(0.0);
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
