#include "speech/whisper_rules.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "generate/logit_rules.h"

using namespace pumice;

TEST_CASE("sampling one token: as often as its probability at the temperature says") {
  const std::vector<float> logits = {1.0f, forbidden_score, 2.0f, -1.0f, 0.5f};
  for (const float temperature : {0.2f, 1.0f, 3.0f}) {
    CAPTURE(temperature);
    std::mt19937_64 random(11);
    constexpr int rounds = 40000;
    std::vector<int> counts(logits.size());
    double sum = 0, all = 0;
    for (const float logit : logits) {
      sum += std::exp(double{logit} / temperature);
      all += std::exp(double{logit});
    }
    for (int round = 0; round < rounds; ++round) {
      std::vector<float> scores = logits;
      const double log_probability = sample_one(scores, temperature, random);
      const auto chosen = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
      REQUIRE(std::ranges::count(scores, forbidden_score) == 4); // all others
      // The logarithm is that of a temperature of 1.
      REQUIRE(log_probability == doctest::Approx(logits[chosen] - std::log(all)).epsilon(1e-6));
      ++counts[chosen];
    }
    for (size_t token = 0; token < logits.size(); ++token) {
      const double expected = std::exp(double{logits[token]} / temperature) / sum;
      CHECK(std::abs(static_cast<double>(counts[token]) / rounds - expected) < 0.01);
    }
  }
  std::vector<float> none(3, forbidden_score);
  std::mt19937_64 random(1);
  CHECK(sample_one(none, 1, random) == 0);
  CHECK(probability(logits, 1) == 0);
}
