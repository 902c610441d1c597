// Rounding to 16-bit floats in the same way on every device.
#ifndef PUMICE_HALF_GLSL
#define PUMICE_HALF_GLSL

// Rounds a float to the 11 bits of a 16-bit float, ties to even. A device may let packHalf2x16 round in another way, and
// compilers may replace unpack(pack(a)) by a.
float round_to_half(float a) {
  const uint bits = floatBitsToUint(a);
  return uintBitsToFloat((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

#endif
