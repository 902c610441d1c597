#include <doctest/doctest.h>

#include "tuning/tuner.h"

using namespace pumice;

namespace {

TunedClass tuned(std::vector<VariantResult> variants) {
  TunedClass result{"products of 128 rows", std::move(variants), ""};
  choose_winner(result, "portable");
  return result;
}

VariantResult measured(const char* name, double seconds, double least_seconds) {
  VariantResult result;
  result.variant = name;
  result.seconds = seconds;
  result.least_seconds = least_seconds;
  return result;
}

} // namespace

TEST_CASE("the fastest variant wins, and nothing is said of slower ones") {
  const TunedClass result =
      tuned({measured("subgroup", 20, 19), measured("tiled", 10, 9), measured("portable", 30, 29)});
  CHECK(result.winner == "tiled");
  for (const VariantResult& each : result.variants) CHECK(each.not_taken == "");
}

TEST_CASE("a variant that took less time and is not taken has a reason") {
  TunedClass result = tuned({measured("cpu8", 5268, 5000), measured("portable", 4769, 4500)});
  CHECK(result.winner == "cpu8");
  CHECK(result.variants[0].not_taken == "");
  CHECK(result.variants[1].not_taken.find("another order") != std::string::npos);

  result = tuned({measured("subgroup", 100, 90), measured("tiled", 97, 80), measured("portable", 200, 190)});
  CHECK(result.winner == "subgroup");
  CHECK(result.variants[1].not_taken.find("less than 5 %") != std::string::npos);

  result = tuned({measured("subgroup", 1e-4, 8e-5), measured("tiled", 8e-5, 7.9e-5)});
  CHECK(result.winner == "subgroup");
  CHECK(result.variants[1].not_taken.find("79.0 µs") != std::string::npos);
}

TEST_CASE("a blocked variant does not win, and the plain one does where nothing else may") {
  VariantResult wrong = measured("cm", 1, 1);
  wrong.blocked = "its results are off";
  const TunedClass result = tuned({wrong, measured("portable", 10, 9)});
  CHECK(result.winner == "portable");
  CHECK(result.variants[0].not_taken == "");
}
