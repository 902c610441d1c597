#include "speech/word_times.h"

#include <algorithm>
#include <functional>

#include <doctest/doctest.h>

#include "support/files/whisper_folder.h"
#include "support/seeded_numbers.h"

using namespace pumice;

namespace {

// The greatest sum of a path, over all paths.
double best_path(const std::vector<float>& scores, size_t positions, size_t token, size_t position) {
  const double own = scores[token * positions + position];
  if (token == 0 && position == 0) return own;
  double best = -1e30;
  if (token > 0) best = std::max(best, best_path(scores, positions, token - 1, position));
  if (position > 0) best = std::max(best, best_path(scores, positions, token, position - 1));
  if (token > 0 && position > 0) best = std::max(best, best_path(scores, positions, token - 1, position - 1));
  return own + best;
}

// The greatest sum of paths that reach each token where `reached` says.
double sum_through(const std::vector<float>& scores, size_t positions, const std::vector<uint32_t>& reached) {
  double sum = 0;
  const size_t tokens = reached.size();
  for (size_t token = 0; token < tokens; ++token) {
    const size_t begin = reached[token];
    // A token is left where the next is reached, or one position before.
    const size_t end = token + 1 < tokens ? reached[token + 1] : positions - 1;
    double own = 0, best = -1e30;
    for (size_t position = begin; position <= end; ++position) {
      own += scores[token * positions + position];
      if (position + 1 >= end || position == end) best = std::max(best, own);
      if (token + 1 == tokens && position == end) best = own;
    }
    sum += best;
  }
  return sum;
}

} // namespace

TEST_CASE("word times: dynamic time warping finds the best of all paths") {
  for (const auto& size : {std::pair{1u, 1u}, {1u, 7u}, {7u, 1u}, {2u, 2u}, {3u, 7u}, {5u, 5u}, {7u, 4u}}) {
    const uint32_t tokens = size.first, positions = size.second;
    for (int round = 0; round < 20; ++round) {
      CAPTURE(tokens);
      CAPTURE(positions);
      const std::vector<float> scores =
          seeded_floats(static_cast<uint64_t>(round), "scores", size_t{tokens} * positions, 0, 1);
      const std::vector<uint32_t> reached = warp(scores, tokens);
      REQUIRE(reached.size() == tokens);
      CHECK(reached[0] == 0);
      CHECK(std::ranges::is_sorted(reached));
      const double best = best_path(scores, positions, tokens - 1, positions - 1);
      CHECK(sum_through(scores, positions, reached) == doctest::Approx(best).epsilon(1e-5));
    }
  }
  CHECK(warp({}, 0).empty());
  CHECK(warp({}, 3) == std::vector<uint32_t>(3));
}

TEST_CASE("word times: a planted staircase is found") {
  // Each token looks at four positions of its own.
  std::vector<float> scores(5 * 20, -1);
  for (size_t position = 0; position < 20; ++position) scores[position / 4 * 20 + position] = 1;
  CHECK(warp(scores, 5) == std::vector<uint32_t>{0, 4, 8, 12, 16});
}

TEST_CASE("word times: the median of neighbours, reflected at the ends") {
  for (const size_t size : {1u, 3u, 4u, 7u, 8u, 100u}) {
    const std::vector<float> row = seeded_floats(6, "row", size, 0, 1);
    const std::vector<float> found = median_filter(row, 7);
    REQUIRE(found.size() == size);
    for (size_t at = 0; at < size && size > 3; ++at) {
      std::vector<float> near;
      for (int offset = -3; offset <= 3; ++offset) {
        int from = static_cast<int>(at) + offset;
        if (from < 0) from = -from;
        if (from >= static_cast<int>(size)) from = 2 * (static_cast<int>(size) - 1) - from;
        near.push_back(row[static_cast<size_t>(from)]);
      }
      std::ranges::sort(near);
      CHECK(found[at] == near[3]);
    }
    if (size <= 3) CHECK(found == row);
  }
}

TEST_CASE("word times: scores are alike for heads of any strength") {
  // Two heads with the same pattern, one of them a hundred times as faint and over a constant.
  std::vector<float> strong(3 * 60), faint(3 * 60);
  for (size_t token = 0; token < 3; ++token) {
    for (size_t position = 0; position < 60; ++position) {
      strong[token * 60 + position] = position / 20 == token ? 1.0f : 0.0f;
      faint[token * 60 + position] = 0.5f + strong[token * 60 + position] / 100;
    }
  }
  const std::vector<std::vector<float>> one = {strong}, both = {strong, faint};
  const std::vector<float> expected = alignment_scores(one, 3), found = alignment_scores(both, 3);
  for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-3));
  CHECK(warp(found, 3) == std::vector<uint32_t>{0, 20, 40});
}

FIXTURE_TEST_CASE("word times: tokens are words with the marks around them") {
  const WhisperFolder folder; // its tokens are bytes
  const auto tokenizer = Tokenizer::load(folder.path() / "tokenizer.json");
  REQUIRE(tokenizer.ok());
  const auto words = [&](const std::string& text, bool spaced) {
    std::vector<std::string> found;
    size_t tokens = 0;
    for (const WordTokens& word : words_of(**tokenizer, (*tokenizer)->encode(text, false), spaced)) {
      CHECK((*tokenizer)->encode(word.text, false).size() == word.tokens);
      tokens += word.tokens;
      found.push_back(word.text);
    }
    CHECK(tokens == (*tokenizer)->encode(text, false).size());
    return found;
  };
  using Words = std::vector<std::string>;
  CHECK(words(" Hello, big world\"!", true) == Words{" Hello,", " big", " world\"!"});
  CHECK(words(" naïve café", true) == Words{" naïve", " café"});
  CHECK(words("一二。三", false) == Words{"一", "二。", "三"});
  CHECK(words("", true).empty());
  CHECK(separates_words("en"));
  CHECK(separates_words(""));
  CHECK(!separates_words("ja"));
}
