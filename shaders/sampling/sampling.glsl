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

// The first filter that does something.
uint first_filter(uint order, uint top_k, uint vocabulary) {
  const bool skip = (order & 15u) == SAMPLING_TOP_K && top_k_of(top_k, vocabulary) == 0u;
  return (skip ? order >> 4u : order) & 15u;
}

// Only top-p over the whole vocabulary needs the probabilities of all tokens.
bool needs_all_sums(float temperature, uint order, uint top_k, uint vocabulary) {
  return temperature > 0.0 && first_filter(order, top_k, vocabulary) == SAMPLING_TOP_P;
}

#endif
