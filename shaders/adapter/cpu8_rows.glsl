// For CPU drivers: the rows of a workgroup that have the same adapter. They are found by all lanes, of which each looks at one
// row, and are multiplied together, so that an adapter is read once for them.
//
// Drivers go through a loop's body once more when its condition has failed, with all lanes off. A load from an address that all
// lanes share is made then, too: so addresses must be right even where no row is left.
#ifndef PUMICE_CPU8_ROWS_GLSL
#define PUMICE_CPU8_ROWS_GLSL

// The number of the lowest bit of `mask`; of none 0.
uint first_bit(uint mask) { return uint(max(findLSB(mask), 0)); }

// Takes the lowest of the bits of `mask`; if there is none, it is `otherwise`.
uint take_bit(inout uint mask, uint otherwise) {
  const uint bit = mask != 0u ? first_bit(mask) : otherwise;
  mask &= mask - 1u;
  return bit;
}

#endif
