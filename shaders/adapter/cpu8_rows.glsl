// For CPU drivers: the rows of a workgroup that have the same adapter. They are found by all lanes, of which each looks at one
// row, and are multiplied together, so that an adapter is read once for them.
#ifndef PUMICE_CPU8_ROWS_GLSL
#define PUMICE_CPU8_ROWS_GLSL

// Takes the lowest of the bits of `mask`; if there is none, it is `otherwise`.
uint take_bit(inout uint mask, uint otherwise) {
  const uint bit = mask != 0u ? uint(findLSB(mask)) : otherwise;
  mask &= mask - 1u;
  return bit;
}

#endif
