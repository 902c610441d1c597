// Logits as unsigned keys of the same order, which no rounding mode or flushing of small numbers can disturb. Key 0 is
// for what must never be drawn.
#ifndef PUMICE_SAMPLING_GLSL
#define PUMICE_SAMPLING_GLSL

uint key_of(float logit) {
  const uint bits = floatBitsToUint(logit);
  const uint size = min(bits & 0x7fffffffu, 0x7f7fffffu); // infinity counts as the largest float
  if ((bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u) return 0u;
  return (bits >> 31) == 0u || size == 0u ? size | 0x80000000u : ~(size | 0x80000000u);
}

const uint LEAST_KEY = 0x00800000u; // of a finite logit

float value_of(uint key) { return uintBitsToFloat((key >> 31) != 0u ? key & 0x7fffffffu : ~key); }

// top-k does nothing if the vocabulary has no more than k tokens.
uint top_k_of(uint k, uint vocabulary) { return k < vocabulary ? k : 0u; }

#endif
