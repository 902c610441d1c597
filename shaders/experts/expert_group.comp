#version 460
// Each workgroup takes one expert. Its slots keep their order. Its blocks begin at the last place where the blocks of
// the experts before it can end, so that no workgroup needs another's count of blocks. Blocks that stay free between
// them are marked.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "matmul/matmul.params.h"
#include "experts/expert_group.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { ExpertGroupParams p; };
READ_BUFFER(uint, choices, EXPERT_GROUP_CHOICES);
WRITE_BUFFER(uint, blocks, EXPERT_GROUP_BLOCKS);

const uint WIDTH = gl_WorkGroupSize.x;
shared uvec2 counts[WIDTH]; // of slots that lower experts have, and of this one's

// Where an expert's blocks begin if so many slots belong to lower ones: those fill at most
// (slots + experts * (block_slots - 1)) / block_slots blocks.
uint first_block(uint expert, uint lower) { return (lower + expert * (p.block_slots - 1u)) / p.block_slots; }

uint block_start(uint block) { return 1u + block * (1u + p.block_slots); }

void main() {
  const uint expert = gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  // Every invocation goes through some neighbouring slots.
  const uint slots = choices[0], share = (slots + WIDTH - 1u) / WIDTH;
  const uint begin = min(me * share, slots), end = min(begin + share, slots);
  uvec2 own = uvec2(0u);
  for (uint slot = begin; slot < end; ++slot) {
    const uint chosen = choices[1u + 2u * slot];
    own += uvec2(chosen < expert ? 1u : 0u, chosen == expert ? 1u : 0u);
  }
  counts[me] = own;
  barrier();

  uint rank = 0u;
  uvec2 all = uvec2(0u);
  for (uint i = 0; i < WIDTH; ++i) {
    if (i < me) rank += counts[i].y;
    all += counts[i];
  }
  const uint first = first_block(expert, all.x), past = first_block(expert + 1u, all.x + all.y);
  for (uint slot = begin; slot < end; ++slot) {
    if (choices[1u + 2u * slot] != expert) continue;
    blocks[block_start(first + rank / p.block_slots) + 1u + rank % p.block_slots] = slot;
    ++rank;
  }
  for (uint block = first + me; block < past; block += WIDTH) {
    const uint before = (block - first) * p.block_slots;
    const uint filled = before < all.y ? min(all.y - before, p.block_slots) : 0u;
    blocks[block_start(block)] = filled > 0u ? expert : MATMUL_NOTHING;
    for (uint i = filled; i < p.block_slots; ++i) blocks[block_start(block) + 1u + i] = MATMUL_NOTHING;
  }
  if (expert == gl_NumWorkGroups.x - 1u && me == 0u) blocks[0] = past;
}
