// Every filter is a limit on the logit or on its typicality. is_left() tells which tokens passed all filters.
#ifndef PUMICE_SAMPLING_FILTERS_GLSL
#define PUMICE_SAMPLING_FILTERS_GLSL
#include "sampling/whole.glsl"

// Returns the mass of the listed keys, and the sum of mass * (logit - top).
vec2 moments(uint count) {
  vec2 sum = vec2(0.0);
  for (uint n = 0u; n < count; ++n) {
    const float logit = value_of(scratch[keys + WIDTH * n + me]) - top;
    sum += exp(logit) * vec2(1.0, logit);
  }
  return reduce_sum(sum);
}

uint largest_left() {
  const uint count = collect_keys();
  uint largest = 0u;
  for (uint n = 0u; n < count; ++n) largest = max(largest, scratch[keys + WIDTH * n + me]);
  return reduce_largest(uvec2(largest, 0u)).x;
}

uint key_below(uint top_key, float reach) { return max(key_of(value_of(top_key) + reach), LEAST_KEY); }

// Logits so far below the largest cannot be drawn: no noise is large enough to lift them.
float noise_reach() { return -26.0 * temperature; }

// Sets the limits of top-n-sigma, top-k, typical, top-p, min-p, XTC and the noise's range, in this order, and makes the
// lists of blocks. Sets a dynamic temperature. `exclude`: XTC applies to this token. Returns the largest key left.
uint filter_keys(uint slot, uint top_key, bool exclude) {
  const uint top_k = top_k_of(slots[slot].top_k, p.vocabulary);
  const float typical_p = slots[slot].typical_p;
  const float top_p = slots[slot].top_p;
  const bool dynamic = slots[slot].dynatemp_range > 0.0, by_spread = slots[slot].top_n_sigma > 0.0;
  const bool top_p_first = top_k == 0u && typical_p >= 1.0 && !dynamic && !by_spread && !exclude;
  // min-p comes late. Before it, every logit counts that is large enough to change a sum of probabilities, and for a
  // dynamic temperature each counts.
  const float range = dynamic ? 1e30 : 26.0 * temperature + 40.0;
  limit = key_below(top_key, top_p_first ? max(noise_reach(), slots[slot].log_min_p) : -range);
  if (by_spread) limit = max(limit, key_of(top - slots[slot].top_n_sigma * spread_of_all()));
  float target = float(top_k);

  // The blocks' maxima give a first limit, which leaves few blocks. The filters then look at these blocks' logits.
  const uint MAXIMA = 0u, TOP_K = 1u, TYPICAL = 2u, TOP_P = 3u;
  [[dont_unroll]] for (uint stage = MAXIMA; stage <= TOP_P; ++stage) {
    bool skip = top_p >= 1.0;
    if (stage == MAXIMA) skip = top_k != 0u ? top_k > p.blocks : skip || !top_p_first;
    if (stage == TOP_K) skip = top_k == 0u;
    if (stage == TYPICAL) skip = typical_p >= 1.0;
    if (!skip) {
      uint count = 0u, by = stage == TOP_P ? BY_MASS : BY_COUNT, low = limit, high = top_key;
      float mass = 0.0;
      if (stage == MAXIMA) {
        if (top_k == 0u) by = BY_MASS;
        for (uint b = me; b < p.blocks; b += WIDTH) {
          const uint largest = scratch[maxima + b];
          scratch[keys + WIDTH * count++ + me] = largest;
          if (by == BY_MASS && largest != 0u) mass += uintBitsToFloat(scratch[sums + b]) * exp(value_of(largest) - top);
        }
        if (by == BY_MASS) mass = reduce_sum(vec2(mass, 0.0)).x;
      } else {
        count = collect_keys();
        if (stage == TYPICAL || (stage == TOP_P && !top_p_first)) {
          const vec2 sum = moments(count);
          mass = sum.x;
          typical_center = stage == TYPICAL ? sum.y / sum.x : typical_center;
        }
      }
      if (stage == TYPICAL) {
        // Keeps the logits nearest to the mean one, whose token's information is the entropy (Meister et
        // al. 2022, "Locally typical sampling").
        by = BY_TYPICALITY;
        target = typical_p * mass;
        low = key_of(-1.0 - range);
        high = key_of(0.0);
      } else if (mass > 0.0) {
        target = top_p * mass;
        // What top-p drops and the least key that it keeps weigh 1 - p or more together, so that key's weight has a bound.
        low = limit = max(limit, key_of(top + log(mass * (1.0 - top_p) / float(p.vocabulary)) - 0.01));
      }
      const uint found = find_limit(count, low, high, by, target);
      if (stage == TYPICAL) {
        typical_limit = found;
        typical = true;
        top_key = largest_left();
      } else {
        limit = found;
      }
    }
    if (stage == MAXIMA) collect_blocks();
  }
  limit = max(limit, key_below(top_key, slots[slot].log_min_p));
  if (exclude) top_key = ceiling = exclude_top_choices(slots[slot].log_xtc_threshold, top_key);
  if (dynamic) set_temperature(slot);
  limit = max(limit, key_below(top_key, noise_reach()));
  return top_key;
}

#endif
