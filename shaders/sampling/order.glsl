// The order of the filters.
#ifndef PUMICE_SAMPLING_ORDER_GLSL
#define PUMICE_SAMPLING_ORDER_GLSL
#include "sampling/sampling.glsl"

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
