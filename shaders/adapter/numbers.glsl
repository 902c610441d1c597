// Numbers of adapters' matrices. The including file has the constant ADAPTER_NUMBERS, one of ADAPTER_*.
#ifndef PUMICE_ADAPTER_NUMBERS_GLSL
#define PUMICE_ADAPTER_NUMBERS_GLSL

const uint NUMBERS_OF_DWORD = ADAPTER_NUMBERS == ADAPTER_F32 ? 1u : 2u;

// The two numbers of a dword, where it has two.
vec2 number_pair(uint dword) {
  return ADAPTER_NUMBERS == ADAPTER_F16 ? unpackHalf2x16(dword) : uintBitsToFloat(uvec2(dword << 16, dword & 0xffff0000u));
}

// One number of each of four dwords: the first or the second, where they have two.
vec4 numbers_of(uvec4 dwords, bool second) {
  if (ADAPTER_NUMBERS == ADAPTER_F32) return uintBitsToFloat(dwords);
  vec4 result;
  [[unroll]] for (uint i = 0; i < 4u; ++i) {
    const vec2 pair = number_pair(dwords[i]);
    result[i] = second ? pair.y : pair.x;
  }
  return result;
}

#endif
