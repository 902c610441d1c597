// For drivers that run a subgroup as one 8-lane vector of a CPU.
#ifndef PUMICE_CPU8_GLSL
#define PUMICE_CPU8_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

// Buffers by address: a load from an address that all lanes share is a plain load there, while one through a
// descriptor never is.
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressU32x4 { uvec4 d[]; };

// A 64-bit address, so many bytes on.
uvec2 offset_address(uvec2 address, uint bytes) {
  const uint low = address.x + bytes;
  return uvec2(low, address.y + (low < bytes ? 1u : 0u));
}

#define LANE gl_SubgroupInvocationID

// Lane i takes component i of eight that all lanes have. Where the eight come from a uniform address, recent
// compilers make one vector load of it.
#define LANE_SELECT(type, vec4) \
  type lane_select(vec4 low, vec4 high) { \
    type v = high.w; \
    v = LANE == 6u ? high.z : v; \
    v = LANE == 5u ? high.y : v; \
    v = LANE == 4u ? high.x : v; \
    v = LANE == 3u ? low.w : v; \
    v = LANE == 2u ? low.z : v; \
    v = LANE == 1u ? low.y : v; \
    v = LANE == 0u ? low.x : v; \
    return v; \
  }
LANE_SELECT(uint, uvec4)
#ifdef HALVES // of 16-bit floats, too, which not every device has
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_16bit_storage : require
LANE_SELECT(float16_t, f16vec4)
#endif

// What lane i has, for all lanes; the including file has the constant LOAD. Compilers that load texels fast look for an
// active lane in every broadcast, while a shuffle is one instruction there.
#define FROM_LANE(value, i) (LOAD == LOAD_TEXEL ? subgroupShuffle(value, i) : subgroupBroadcast(value, i))

// Reductions by shuffles: subgroupAdd ends the process on some drivers that advertise it.
float lane_max(float a) {
  a = max(a, subgroupShuffleXor(a, 1u));
  a = max(a, subgroupShuffleXor(a, 2u));
  return max(a, subgroupShuffleXor(a, 4u));
}

float lane_sum(float a) {
  a += subgroupShuffleXor(a, 1u);
  a += subgroupShuffleXor(a, 2u);
  return a + subgroupShuffleXor(a, 4u);
}

#endif
