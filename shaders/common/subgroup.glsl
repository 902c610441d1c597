// Subgroups of any width from eight on. Kernels name what depends on the width by this header alone: tests put another in its
// place, which makes wide subgroups of narrow ones (tests/support/wide_subgroups/common/subgroup.glsl).
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#define SUBGROUP_NUMBER gl_SubgroupID
#define SUBGROUP_LANE gl_SubgroupInvocationID
// What the lane has whose number differs in the bit `distance`, 8 or more. The whole workgroup must get there.
#define EXCHANGE(value, distance) subgroupShuffleXor(value, distance)
