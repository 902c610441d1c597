// Halves made in one way on every device.
#ifndef PUMICE_HALF_GLSL
#define PUMICE_HALF_GLSL

// A float rounded to the 11 bits that a half keeps, ties to even. Which way packHalf2x16 rounds is up to the device, and
// compilers take a number that was a half for what it was before.
float round_to_half(float a) {
  const uint bits = floatBitsToUint(a);
  return uintBitsToFloat((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
}

#endif
