#version 460
// The positions with a row's largest scores, of equal ones the first. A workgroup takes a row: it finds the smallest of the
// largest scores, eight bits at a time, by counting. A row that sees no more positions than it may attend to gets all.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/chosen_positions.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { ChoosePositionsParams p; };
READ_BUFFER(uvec4, step_block, CHOOSE_STEP);
READ_BUFFER(uint, scores, CHOOSE_SCORES);
WRITE_BUFFER(uint, result, CHOOSE_RESULT);

#define OWN gl_LocalInvocationID.x
const uint BLOCK = gl_WorkGroupSize.x;
shared uint counts[256];
shared uint own_ties[gl_WorkGroupSize.x];

// Larger for larger scores; the two zeros are equal, and what is not a number is less than all.
uint order_of(uint bits) {
  const uint size = bits & 0x7fffffffu;
  if (size == 0u) return 0x80000000u;
  if (size > 0x7f800000u) return 0u;
  return (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
}

void main() {
  const uint token = p.first_row + gl_WorkGroupID.x;
  if (token >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 row = step_block[STEP_HEADER_QUADS + token];
  const uint first = row.w, end = row.y + 1u;
  if (first >= end) return;
  const uint from = gl_WorkGroupID.x * p.scores_stride, to = token * p.words;
  const uint first_word = first / 32u, last_word = min((end - 1u) / 32u, p.words - 1u);
  if (end - first <= p.most) {
    for (uint word = first_word + OWN; word <= last_word; word += BLOCK) result[to + word] = 0xffffffffu;
    return;
  }

  // `known`: the bits that are known of the smallest score's order. `wanted`: how many scores with these bits are kept.
  uint smallest = 0, known = 0, wanted = p.most;
  for (int shift = 24; shift >= 0; shift -= 8) {
    barrier();
    for (uint i = OWN; i < 256u; i += BLOCK) counts[i] = 0u;
    barrier();
    for (uint position = first + OWN; position < end; position += BLOCK) {
      const uint order = order_of(scores[from + position]);
      if ((order & known) == smallest) atomicAdd(counts[order >> shift & 255u], 1u);
    }
    barrier();
    uint digit = 255u;
    while (digit > 0u && counts[digit] < wanted) wanted -= counts[digit--];
    smallest |= digit << shift;
    known |= 255u << shift;
  }

  // Each invocation has words side by side, so that it knows how many equal scores come before its own.
  const uint each = (last_word - first_word + BLOCK) / BLOCK;
  const uint own_first = first_word + OWN * each, own_end = min(own_first + each, last_word + 1u);
  uint ties = 0;
  for (uint position = max(own_first * 32u, first); position < min(own_end * 32u, end); ++position) {
    if (order_of(scores[from + position]) == smallest) ++ties;
  }
  own_ties[OWN] = ties;
  barrier();
  uint before = 0;
  for (uint i = 0; i < OWN; ++i) before += own_ties[i];
  for (uint word = own_first; word < own_end; ++word) {
    uint bits = 0;
    for (uint position = max(word * 32u, first); position < min(word * 32u + 32u, end); ++position) {
      const uint order = order_of(scores[from + position]);
      const bool kept = order > smallest || (order == smallest && before < wanted);
      if (order == smallest) ++before;
      if (kept) bits |= 1u << (position & 31u);
    }
    result[to + word] = bits;
  }
}
