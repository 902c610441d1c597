#version 460
// Each workgroup takes a row of logits. Experts are ordered by falling logit, equal ones by rising number; the j-th
// choice is the first expert after the choice before it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "experts/expert_route.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint NORMALISE = 1;
#include "common/reduce.glsl"
layout(push_constant) uniform Push { ExpertRouteParams p; };
READ_BUFFER(uvec4, step_block, EXPERT_ROUTE_STEP);
READ_BUFFER(float, logits, EXPERT_ROUTE_LOGITS);
WRITE_BUFFER(uint, blocks, EXPERT_ROUTE_BLOCKS);
WRITE_BUFFER(float, shares, EXPERT_ROUTE_SHARES);

const float LARGEST = 3.402823466e38;
uint me = gl_LocalInvocationID.x;

struct Choice {
  float logit;
  uint expert;
};
shared Choice bests[gl_WorkGroupSize.x];

bool before(Choice a, Choice b) { return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert); }

// NaN counts as the smallest number; infinities as the largest, so that every difference is a number or minus infinity.
Choice candidate(uint at, uint expert) {
  const float v = logits[at + expert];
  const bool nan = (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u;
  return Choice(nan ? -LARGEST : clamp(v, -LARGEST, LARGEST), expert);
}

// The first choice after `last`, the same in all invocations.
Choice next_choice(uint at, Choice last, bool any) {
  Choice best = Choice(-LARGEST, 0xffffffffu);
  for (uint expert = me; expert < p.experts; expert += gl_WorkGroupSize.x) {
    const Choice c = candidate(at, expert);
    if ((any || before(last, c)) && before(c, best)) best = c;
  }
  bests[me] = best;
  barrier();
  for (uint n = gl_WorkGroupSize.x / 2u; n >= 8u; n /= 2u) {
    if (me < n && before(bests[me + n], bests[me])) bests[me] = bests[me + n];
    barrier();
  }
  best = bests[0];
  for (uint i = 1; i < 8u; ++i) {
    if (before(bests[i], best)) best = bests[i];
  }
  barrier(); // the next choice may overwrite them
  return best;
}

void main() {
  const uint rows = step_block[0][p.rows_kind];
  const uint row = gl_WorkGroupID.x;
  if (row == 0u && me == 0u) blocks[0] = rows * p.used;
  if (row >= rows) return;
  const uint at = row * p.logits_stride;

  Choice choice = Choice(LARGEST, 0u);
  float largest = 0.0, total = 0.0;
  for (uint j = 0; j < p.used; ++j) {
    choice = next_choice(at, choice, j == 0u);
    if (j == 0u) largest = choice.logit;
    const float share = exp(choice.logit - largest);
    total += share;
    if (me == 0u) {
      const uint slot = row * p.used + j;
      blocks[1u + 2u * slot] = choice.expert;
      blocks[2u + 2u * slot] = slot;
      shares[slot] = share;
    }
  }
  if (NORMALISE == 0u) {
    float sum = 0.0;
    for (uint expert = me; expert < p.experts; expert += gl_WorkGroupSize.x) {
      sum += exp(candidate(at, expert).logit - largest);
    }
    total = workgroup_sum(sum);
  }
  if (me == 0u) {
    for (uint j = 0; j < p.used; ++j) shares[row * p.used + j] /= total;
  }
}
