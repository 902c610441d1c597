// Sums over all tokens that are left, of which there may be as many as the vocabulary has: without lists of keys, and eight
// at a time, because some drivers end a shader's loops after 65,535 iterations in all.
#ifndef PUMICE_SAMPLING_WHOLE_GLSL
#define PUMICE_SAMPLING_WHOLE_GLSL
#include "sampling/select.glsl"

const uint COUNT = 0u;   // how many there are
const uint MASS = 1u;    // exp((logit - top) * amount), and that times logit - top
const uint SQUARES = 2u; // (logit - top - amount)^2, and logit - top

// The sums of one kind over the listed blocks.
vec2 sums_of_left(uint kind, float amount) {
  vec2 sum = vec2(0.0);
  [[dont_unroll]] for (uint n = 0u; n < block_count * (SAMPLING_BLOCK / 8u); ++n) {
    const uint block = scratch[blocks + WIDTH * (n / (SAMPLING_BLOCK / 8u)) + me];
    const uint first = block * SAMPLING_BLOCK + n % (SAMPLING_BLOCK / 8u) * 8u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      const uint key = first + i < p.vocabulary ? key_of(logits[gl_WorkGroupID.x * p.stride + first + i]) : 0u;
      if (key == 0u || !is_left(key)) continue;
      const float logit = value_of(key) - top;
      if (kind == COUNT) sum += vec2(1.0, 0.0);
      if (kind == MASS) sum += exp(logit * amount) * vec2(1.0, logit);
      if (kind == SQUARES) sum += vec2((logit - amount) * (logit - amount), logit);
    }
  }
  return reduce_sum(sum);
}

void list_all_blocks() {
  limit = LEAST_KEY;
  collect_blocks();
}

// The standard deviation of the logits that are left in the listed blocks.
float spread_of_left() {
  const float count = sums_of_left(COUNT, 0.0).x;
  const float mean = sums_of_left(SQUARES, 0.0).y / count;
  return sqrt(sums_of_left(SQUARES, mean).x / count);
}

// XTC: of the tokens whose share of the probability is at least the threshold, all but the least probable go. Returns its
// key, above which nothing is left.
uint exclude_top_choices(float log_threshold, uint top_key) {
  const uint threshold = key_of(top + (log_threshold + log(sums_of_left(MASS, coldness).x)) * heat);
  uint least = top_key;
  [[dont_unroll]] for (uint n = 0u; n < block_count * (SAMPLING_BLOCK / 8u); ++n) {
    const uint block = scratch[blocks + WIDTH * (n / (SAMPLING_BLOCK / 8u)) + me];
    const uint first = block * SAMPLING_BLOCK + n % (SAMPLING_BLOCK / 8u) * 8u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
      const uint key = first + i < p.vocabulary ? key_of(logits[gl_WorkGroupID.x * p.stride + first + i]) : 0u;
      if (key >= threshold && key != 0u && is_left(key)) least = min(least, key);
    }
  }
  return ~reduce_largest(uvec2(~least, 0u)).x;
}

// A dynamic temperature: as far up its range as the entropy is on the way to the most that it could be.
void set_temperature(uint slot) {
  const float count = sums_of_left(COUNT, 0.0).x;
  if (count <= 1.0) return;
  const vec2 sum = sums_of_left(MASS, 1.0); // before the temperature
  const float entropy = log(sum.x) - sum.y / sum.x;
  const float share = clamp(entropy / log(count), 1e-30, 1.0);
  const float range = slots[slot].dynatemp_range, least = max(temperature - range, 0.0);
  temperature = least + (temperature + range - least) * pow(share, slots[slot].dynatemp_exponent);
  temperature = clamp(temperature, 1e-3, 1e3);
  inverse_temperature = 1.0 / temperature;
}

const float LN_2 = 0.6931471805599453;

// Mirostat 2 (Basu et al. 2020): leaves tokens whose surprise, -log2 of their probability, is at most mu.
void limit_surprise(uint slot, uint top_key) {
  list_all_blocks();
  const float mass = log(sums_of_left(MASS, inverse_temperature).x);
  limit = max(limit, key_of(top + temperature * max(mass - LN_2 * slots[slot].mirostat_mu, -26.0)));
  limit = min(limit, top_key);
  collect_blocks();
}

// Moves mu by how far the surprise of the chosen token, among what was left, is from what is aimed at.
void learn_surprise(uint slot, uint token) {
  const float mass = log(sums_of_left(MASS, inverse_temperature).x);
  const float logit = value_of(key_of(logits[gl_WorkGroupID.x * p.stride + token])) - top;
  const float surprise = (mass - logit * inverse_temperature) / LN_2;
  if (me == 0u) slots[slot].mirostat_mu -= slots[slot].mirostat_eta * (surprise - slots[slot].mirostat_tau);
}

#endif
