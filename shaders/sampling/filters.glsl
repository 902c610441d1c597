// Every filter is a limit on the logit or on its typicality. is_left() tells which tokens passed all filters.
#ifndef PUMICE_SAMPLING_FILTERS_GLSL
#define PUMICE_SAMPLING_FILTERS_GLSL
#include "sampling/whole.glsl"

// Returns the mass of the listed keys, and the sum of mass * (logit - top).
vec2 moments(uint count) {
  vec2 sum = vec2(0.0);
  for (uint n = 0u; n < count; ++n) {
    const float logit = value_of(scratch[keys + WIDTH * n + me]) - top;
    sum += exp(logit * coldness) * vec2(1.0, logit);
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

bool has(uint order, uint wanted) {
  bool found = false;
  [[dont_unroll]] for (; order != 0u; order >>= 4u) found = found || (order & 15u) == wanted;
  return found;
}

// Sets the limits of the filters in the slot's order, and of the noise's range, and makes the lists of blocks. Sets a
// dynamic temperature. `exclude`: XTC applies to this token. Returns the largest key left.
uint filter_keys(uint slot, uint top_key, bool exclude) {
  uint order = slots[slot].order;
  const uint top_k = top_k_of(slots[slot].top_k, p.vocabulary);
  const bool dynamic = slots[slot].dynatemp_range > 0.0;
  const bool by_sums = first_filter(order, slots[slot].top_k, p.vocabulary) == SAMPLING_TOP_P;
  // Before the end, every logit counts that is large enough to change a sum of probabilities, and for a dynamic
  // temperature or a spread each counts.
  const bool each_counts = dynamic || has(order, SAMPLING_SIGMA);
  const float range = each_counts ? 1e30 : 26.0 * temperature + 40.0 * max(temperature, 1.0);
  limit = each_counts ? LEAST_KEY : key_below(top_key, -range);
  float target = 0.0;

  // The blocks' maxima give a first limit, which leaves few blocks. The filters then look at these blocks' logits.
  const uint MAXIMA = 0u;
  bool listed = false;
  uint most = 0u; // of the largest that the first filter which looks at them leaves; 0: any number
  [[dont_unroll]] while (order != 0u) {
    uint stage = order & 15u;
    if (stage == SAMPLING_MIN_P) limit = max(limit, key_below(top_key, slots[slot].log_min_p * heat));
    if (stage == SAMPLING_END) limit = max(limit, key_below(top_key, noise_reach()));
    const bool needs_lists = stage != SAMPLING_MIN_P && stage != SAMPLING_SIGMA && (stage != SAMPLING_TEMPERATURE || dynamic);
    if (needs_lists && !listed) {
      most = stage == SAMPLING_TOP_K ? top_k : stage == SAMPLING_TYPICAL_P ? SAMPLING_TYPICAL : 0u;
      stage = MAXIMA;
      listed = true;
    } else {
      order >>= 4u;
    }
    if (stage == SAMPLING_SIGMA) {
      if (!listed) collect_blocks();
      limit = max(limit, key_of(value_of(top_key) - slots[slot].top_n_sigma * spread_of_left()));
    }
    if (stage == SAMPLING_XTC && exclude) {
      top_key = ceiling = exclude_top_choices(slots[slot].log_xtc_threshold, top_key);
      top = value_of(top_key);
    }
    if (stage == SAMPLING_TEMPERATURE) {
      if (dynamic) set_temperature(slot);
      heat = temperature;
      coldness = inverse_temperature;
    }
    bool skip = stage > SAMPLING_TOP_P || stage == SAMPLING_SIGMA;
    if (stage == MAXIMA) skip = !by_sums && (most == 0u || most > p.blocks);
    if (stage == SAMPLING_TOP_K) skip = top_k == 0u;
    if (!skip) {
      uint count = 0u, by = BY_COUNT, low = limit, high = top_key;
      float mass = 0.0;
      if (stage == MAXIMA) {
        target = float(most);
        if (by_sums) by = BY_MASS;
        for (uint b = me; b < p.blocks; b += WIDTH) {
          const uint largest = scratch[maxima + b];
          scratch[keys + WIDTH * count++ + me] = largest;
          if (by_sums && largest != 0u) mass += uintBitsToFloat(scratch[sums + b]) * exp(value_of(largest) - top);
        }
        if (by_sums) mass = reduce_sum(vec2(mass, 0.0)).x;
      } else {
        count = collect_keys();
        if (stage == SAMPLING_TOP_K) target = float(top_k);
        if (stage == SAMPLING_TOP_P) by = BY_MASS;
        if (stage == SAMPLING_TYPICAL_P || (stage == SAMPLING_TOP_P && !by_sums)) {
          const vec2 sum = moments(count);
          mass = sum.x;
          if (stage == SAMPLING_TYPICAL_P) typical_center = sum.y / sum.x;
        }
      }
      if (stage == SAMPLING_TYPICAL_P) {
        // Keeps the logits nearest to the mean one, whose token's information is the entropy (Meister et
        // al. 2022, "Locally typical sampling").
        by = BY_TYPICALITY;
        typical_top = top;
        target = slots[slot].typical_p * mass;
        low = key_of(-1.0 - range);
        high = key_of(0.0);
      } else if (mass > 0.0) {
        target = slots[slot].top_p * mass;
        // What top-p drops and the least key that it keeps weigh 1 - p or more together, so that key's weight has a bound.
        const float least = log(mass * (1.0 - slots[slot].top_p) / float(p.vocabulary)) * heat;
        low = limit = max(limit, key_of(top + least - 0.01));
      }
      const uint found = find_limit(count, low, high, by, target);
      if (stage == SAMPLING_TYPICAL_P) {
        typical_limit = found;
        typical = true;
        top_key = largest_left();
        top = value_of(top_key);
      } else {
        limit = found;
      }
    }
    if (stage == MAXIMA) collect_blocks();
  }
  return top_key;
}

#endif
