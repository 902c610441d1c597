#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "embedding/prompt_rows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = PROMPT_ROWS_ADDED_ID) const uint ADDED = 0;
layout(push_constant) uniform Push { PromptRowsParams p; };
READ_BUFFER(uvec4, step_block, PROMPT_ROWS_STEP);
READ_BUFFER(vec4, x, PROMPT_ROWS_X);
READ_BUFFER(vec4, embeddings, PROMPT_ROWS_EMBEDDINGS);
WRITE_BUFFER(vec4, result, PROMPT_ROWS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const bool is_prompt_row = (step_block[STEP_HEADER_QUADS + row].x & PROMPT_ROW) != 0u;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = x[row * (p.x_stride >> 2) + i];
    if (is_prompt_row && 4u * i < p.columns) {
      const vec4 given = embeddings[row * (p.embeddings_stride >> 2) + (p.first >> 2) + i];
      v = ADDED == 1u ? v + given : given;
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
