#version 460
// An invocation takes one head of one pixel; a workgroup has those of one row. Keys come in the window's order, so the bits
// do not depend on where the picture lies in the step.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "cells/cells.glsl"
#include "common/types.glsl"
#include "cells/cell_attention.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CELL_ATTENTION_HEAD_QUADS_ID) const uint HEAD_QUADS = 8;
layout(constant_id = CELL_ATTENTION_WHOLE_ID) const uint WHOLE = 0;
layout(constant_id = CELL_ATTENTION_TABLE_ID) const uint HAS_TABLE = 1;
layout(constant_id = CELL_ATTENTION_SCORES_ID) const uint HAS_SCORES = 0;
layout(push_constant) uniform Push { CellAttentionParams p; };
READ_BUFFER(uvec4, step_block, CELL_ATTENTION_STEP);
READ_BUFFER(vec4, query, CELL_ATTENTION_QUERY);
READ_BUFFER(vec4, key, CELL_ATTENTION_KEY);
READ_BUFFER(vec4, value, CELL_ATTENTION_VALUE);
READ_BUFFER(float, table, CELL_ATTENTION_TABLE);
READ_BUFFER(float, scores, CELL_ATTENTION_SCORES);
READ_BUFFER(vec4, outer_key, CELL_ATTENTION_OUTER_KEY);
READ_BUFFER(vec4, outer_value, CELL_ATTENTION_OUTER_VALUE);
WRITE_BUFFER(vec4, result, CELL_ATTENTION_RESULT);

vec4 key_quad(bool outer, uint at) {
  if (outer) return outer_key[at];
  return key[at];
}

vec4 value_quad(bool outer, uint at) {
  if (outer) return outer_value[at];
  return value[at];
}

// Which of the parts that a shift keeps together a shifted place is in.
uint part_of(uint place, uint size) {
  return p.shift == 0u ? 0u : uint(place + p.window >= size) + uint(place + p.shift >= size);
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  uint place = 0u; // of the cell
  if (WHOLE == 0u) {
    const uvec4 token = step_block[STEP_HEADER_QUADS + row];
    place = token.y - token.w;
  }
  const uint index = (gl_WorkGroupID.z * p.groups + gl_WorkGroupID.y) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint pixels = WHOLE != 0u ? p.height * p.width : p.side * p.side;
  const uint quads = pixels * p.heads * HEAD_QUADS; // of a row
  const uint to = row * (p.out_stride >> 2);
  if (index >= pixels * p.heads) { // zeros behind the last pixel
    const uint padding = quads + index - pixels * p.heads;
    if (padding < (p.out_stride >> 2)) result[to + padding] = vec4(0.0);
    return;
  }
  const uint pixel = index / p.heads, head = index % p.heads;
  const uvec2 at = WHOLE != 0u ? uvec2(pixel % p.width, pixel / p.width)
                               : uvec2(place % p.cells, place / p.cells) * p.side + pixel_place(pixel);
  if (place >= p.count || at.x >= p.width || at.y >= p.height) {
    for (uint i = 0; i < HEAD_QUADS; ++i) result[to + index * HEAD_QUADS + i] = vec4(0.0);
    return;
  }

  const uvec2 size = uvec2(p.width + p.window - 1u, p.height + p.window - 1u) / p.window * p.window;
  const uvec2 shifted = (at + size - p.shift) % size;
  const uvec2 corner = shifted / p.window * p.window, own = shifted - corner;
  const uvec2 part = uvec2(part_of(shifted.x, size.x), part_of(shifted.y, size.y));
  const uint first = row - place, span = 2u * p.window - 1u;
  const uint from = row * (p.x_stride >> 2) + index * HEAD_QUADS;
  const uint own_scores = row * p.scores_stride + index * 4u * p.window;

  float best = -3e38, total = 0.0;
  vec4 sum[HEAD_QUADS];
  for (uint i = 0; i < HEAD_QUADS; ++i) sum[i] = vec4(0.0);
  for (uint down = 0; down < p.window; ++down) {
    for (uint across = 0; across < p.window; ++across) {
      const uvec2 there = corner + uvec2(across, down);
      const uvec2 source = (there + p.shift) % size;
      const bool outer = source.x >= p.width || source.y >= p.height;
      const uvec2 cell = source / p.side;
      const uint source_row = first + cell.y * p.cells + cell.x;
      const uint source_pixel = WHOLE != 0u ? source.y * p.width + source.x : pixel_at(source % p.side);
      const uint source_at = outer ? head * HEAD_QUADS : source_row * (p.x_stride >> 2) + (source_pixel * p.heads + head) * HEAD_QUADS;
      float score = 0.0;
      for (uint i = 0; i < HEAD_QUADS; ++i) score += dot(query[from + i], key_quad(outer, source_at + i));
      const uvec2 difference = own + p.window - 1u - uvec2(across, down);
      score *= p.scale;
      if (HAS_TABLE != 0u) score += table[(difference.y * span + difference.x) * p.heads + head];
      if (HAS_SCORES != 0u) score += scores[own_scores + difference.y] + scores[own_scores + 2u * p.window + difference.x];
      if (part != uvec2(part_of(there.x, size.x), part_of(there.y, size.y))) score -= float(CELL_ATTENTION_APART);
      if (score > best) {
        const float kept = exp(best - score);
        total *= kept;
        for (uint i = 0; i < HEAD_QUADS; ++i) sum[i] *= kept;
        best = score;
      }
      const float share = exp(score - best);
      total += share;
      for (uint i = 0; i < HEAD_QUADS; ++i) sum[i] += share * value_quad(outer, source_at + i);
    }
  }
  for (uint i = 0; i < HEAD_QUADS; ++i) result[to + index * HEAD_QUADS + i] = sum[i] / total;
}
