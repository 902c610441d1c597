#version 460
// Each workgroup takes a row of logits. Experts are ordered by falling rank, equal ones by rising number; the j-th
// choice is the first expert after the choice before it. Without a bias and groups, the order of the logits is the
// order of the scores, so the scores of experts that are not chosen need not be computed. SparseMixer's share of a choice
// (Liu, Gao and Chen, 2023) is its softmax among those experts that are left whose logits are nearly as large.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "experts/expert_route.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = EXPERT_ROUTE_NORMALISE_ID) const uint NORMALISE = 1;
layout(constant_id = EXPERT_ROUTE_SCORE_ID) const uint SCORE = EXPERT_SCORE_SOFTMAX;
layout(constant_id = EXPERT_ROUTE_BIAS_ID) const uint BIAS = 0;
layout(constant_id = EXPERT_ROUTE_GROUPS_ID) const uint GROUPS = 1;
layout(constant_id = EXPERT_ROUTE_SCALED_ID) const uint SCALED = 0;
#include "common/reduce.glsl"
layout(push_constant) uniform Push { ExpertRouteParams p; };
READ_BUFFER(uvec4, step_block, EXPERT_ROUTE_STEP);
READ_BUFFER(float, logits, EXPERT_ROUTE_LOGITS);
READ_BUFFER(float, bias, EXPERT_ROUTE_BIAS);
READ_BUFFER(float, scales, EXPERT_ROUTE_SCALES);
WRITE_BUFFER(uint, blocks, EXPERT_ROUTE_BLOCKS);
WRITE_BUFFER(float, shares, EXPERT_ROUTE_SHARES);

const float LARGEST = 3.402823466e38;
const bool RANK_BY_SCORE = BIAS != 0u || GROUPS > 1u;
uint me = gl_LocalInvocationID.x;
uint at;       // of the row's logits
float largest; // of the logits, and the sum of all exp(logit - largest); for SOFTMAX
float exp_sum;

struct Choice {
  float rank;
  uint expert;
};
shared Choice bests[gl_WorkGroupSize.x];
shared float group_ranks[GROUPS];
shared uint group_open[GROUPS];

bool before(Choice a, Choice b) { return a.rank > b.rank || (a.rank == b.rank && a.expert < b.expert); }

bool is_nan(float v) { return (floatBitsToUint(v) & 0x7fffffffu) > 0x7f800000u; }

// NaN counts as the smallest number; infinities as the largest, so that every difference is a number or minus infinity.
float ordered(float v) { return is_nan(v) ? -LARGEST : clamp(v, -LARGEST, LARGEST); }

float score(uint expert) {
  const float logit = ordered(logits[at + expert]);
  if (SCORE == EXPERT_SCORE_SIGMOID) return 1.0 / (1.0 + exp(-max(logit, -80.0)));
  return exp(logit - largest) / exp_sum;
}

Choice candidate(uint expert) {
  const float logit = logits[at + expert];
  if (!RANK_BY_SCORE || is_nan(logit)) return Choice(ordered(logit), expert);
  return Choice(ordered(score(expert) + (BIAS != 0u ? bias[expert] : 0.0)), expert);
}

bool open(uint expert) { return GROUPS == 1u || group_open[expert / (p.experts / GROUPS)] != 0u; }

// The first choice after `last`, the same in all invocations.
Choice next_choice(Choice last, bool any) {
  Choice best = Choice(-LARGEST, 0xffffffffu);
  for (uint expert = me; expert < p.experts; expert += gl_WorkGroupSize.x) {
    if (!open(expert)) continue;
    const Choice c = candidate(expert);
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

float sum_of_all() {
  float sum = 0.0;
  for (uint expert = me; expert < p.experts; expert += gl_WorkGroupSize.x)
    sum += exp(ordered(logits[at + expert]) - largest);
  return workgroup_sum(sum);
}

float sparse_share(Choice choice) {
  float sum = 0.0;
  for (uint expert = me; expert < p.experts; expert += gl_WorkGroupSize.x) {
    const Choice other = candidate(expert);
    if (before(other, choice)) continue; // it has been chosen
    const float near = 2.0 * p.jitter * max(abs(other.rank), choice.rank);
    if (choice.rank - other.rank <= near) sum += exp(other.rank - choice.rank);
  }
  return 1.0 / workgroup_sum(sum);
}

// Opens the groups with the best ranks; of equal ones those with the lower numbers.
void open_groups() {
  const uint size = p.experts / GROUPS;
  for (uint group = me; group < GROUPS; group += gl_WorkGroupSize.x) {
    float first = -LARGEST, second = -LARGEST;
    for (uint expert = group * size; expert < (group + 1u) * size; ++expert) {
      const float rank = candidate(expert).rank;
      second = max(second, min(rank, first));
      first = max(first, rank);
    }
    group_ranks[group] = p.group_best > 1u && size > 1u ? max(first + second, -LARGEST) : first;
  }
  barrier();
  for (uint group = me; group < GROUPS; group += gl_WorkGroupSize.x) {
    uint better = 0u;
    for (uint other = 0; other < GROUPS; ++other)
      better += before(Choice(group_ranks[other], other), Choice(group_ranks[group], group)) ? 1u : 0u;
    group_open[group] = better < p.used_groups ? 1u : 0u;
  }
  barrier();
}

void main() {
  const uint rows = step_block[0][p.rows_kind];
  const uint row = gl_WorkGroupID.x;
  if (row == 0u && me == 0u) blocks[0] = rows * p.used;
  if (row >= rows) return;
  at = row * p.logits_stride;

  if (RANK_BY_SCORE && SCORE == EXPERT_SCORE_SOFTMAX) {
    largest = -LARGEST;
    for (uint expert = 0; expert < p.experts; ++expert) largest = max(largest, ordered(logits[at + expert]));
    exp_sum = sum_of_all();
  }
  if (GROUPS > 1u) open_groups();

  Choice choice = Choice(LARGEST, 0u);
  float total = 0.0;
  for (uint j = 0; j < p.used; ++j) {
    choice = next_choice(choice, j == 0u);
    if (!RANK_BY_SCORE && j == 0u) largest = choice.rank;
    const float logit = ordered(logits[at + choice.expert]);
    const float share = SCORE == EXPERT_SCORE_SIGMOID        ? score(choice.expert)
                        : SCORE == EXPERT_SCORE_SPARSE_MIXER ? sparse_share(choice)
                                                             : exp(logit - largest);
    total += share;
    if (me == 0u) {
      const uint slot = row * p.used + j;
      blocks[1u + 2u * slot] = choice.expert;
      blocks[2u + 2u * slot] = slot;
      shares[slot] = SCALED != 0u ? share * scales[choice.expert] : share;
    }
  }
  if (NORMALISE == 0u) {
    total = SCORE != EXPERT_SCORE_SOFTMAX ? 1.0 : RANK_BY_SCORE ? exp_sum : sum_of_all();
  } else {
    total = max(total, 1e-20); // where every chosen score is zero
  }
  if (me == 0u) {
    for (uint j = 0; j < p.used; ++j) {
      const uint slot = row * p.used + j;
      shares[slot] = shares[slot] / total * p.scale;
    }
  }
}
