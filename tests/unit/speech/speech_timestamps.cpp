#include "speech/timestamps.h"

#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

// The vocabulary: text 0 to 9, the end 10, other special tokens up to 12 (no timestamps), the times 13 (0.00)
// to 23, and two times beyond the end of the window.
constexpr uint32_t end = 10, no_timestamps = 12, zero = 13, last = 23, vocabulary = 26;
constexpr TimestampRule rule = {end, no_timestamps, zero, last, zero + 4};

uint32_t at(uint32_t steps) {
  return zero + steps;
}

// The tokens that may follow a text. All tokens have the same score except those in `likely`.
std::set<uint32_t> allowed(const std::vector<uint32_t>& text,
                           const std::vector<std::pair<uint32_t, float>>& likely = {}) {
  std::vector<float> scores(vocabulary, 0.0f);
  for (const auto& [token, score] : likely) scores[token] = score;
  const std::vector<float> before = scores;
  rule.apply(scores, text);
  std::set<uint32_t> result;
  for (uint32_t token = 0; token < vocabulary; ++token) {
    if (std::isinf(scores[token])) continue;
    CHECK(scores[token] == before[token]);
    result.insert(token);
  }
  return result;
}

std::set<uint32_t> range(uint32_t first, uint32_t past) {
  std::set<uint32_t> result;
  for (uint32_t token = first; token < past; ++token) result.insert(token);
  return result;
}

std::set<uint32_t> without(std::set<uint32_t> tokens, uint32_t token) {
  tokens.erase(token);
  return tokens;
}

constexpr float sure = 100; // likelier than all times together

} // namespace

TEST_CASE("a transcript with timestamps begins with an early timestamp") {
  CHECK(allowed({}) == range(zero, zero + 5));
  CHECK(allowed({}, {{3, sure}, {end, sure}}) == range(zero, zero + 5));
}

TEST_CASE("timestamps come in pairs") {
  const std::set<uint32_t> no_time = without(range(0, zero), no_timestamps);
  CHECK(allowed({at(2)}, {{3, sure}}) == no_time); // the first one counts as a pair
  CHECK(allowed({at(0), 5, at(3), at(4)}, {{3, sure}}) == no_time);
  // A time after text is followed by the same, a later one, or the end.
  std::set<uint32_t> expected = range(at(3), last + 1);
  expected.insert(end);
  CHECK(allowed({at(0), 5, at(3)}, {{end, sure}}) == expected);
}

TEST_CASE("times increase, and text takes at least one step") {
  std::set<uint32_t> expected = without(range(0, zero), no_timestamps);
  expected.merge(range(at(5), last + 1));
  CHECK(allowed({at(4), 7}, {{3, sure}}) == expected);
  CHECK(allowed({at(0), 7, at(4), at(4), 8}, {{3, sure}}) == expected);
  // No time may follow the end of the window.
  CHECK(allowed({last, 7}, {{3, sure}}) == without(range(0, zero), no_timestamps));
}

TEST_CASE("a timestamp follows if all timestamps together are likelier than any other token") {
  // Six times may follow, each as likely as a token.
  const std::vector<uint32_t> text = {at(4), 7};
  CHECK(allowed(text, {{3, std::log(5.9f)}, {at(9), 0.1f}}) == range(at(5), last + 1));
  CHECK(allowed(text, {{3, std::log(6.1f)}}).size() == range(at(5), last + 1).size() + zero - 1);
  // Times that are not allowed do not count, however likely they are.
  CHECK(allowed(text, {{3, std::log(6.1f)}, {at(2), sure}, {last + 1, sure}}).contains(3));
  // A constant added to all scores changes nothing.
  std::vector<std::pair<uint32_t, float>> shifted;
  for (uint32_t token = 0; token < vocabulary; ++token) {
    shifted.push_back({token, token == 3 ? std::log(6.1f) - 50 : -50.0f});
  }
  CHECK(allowed(text, shifted).contains(3));
}

TEST_CASE("the timestamp rule accepts any scores") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float score : {-inf, -3e38f, 3e38f}) {
    std::vector<float> scores(vocabulary, score);
    rule.apply(scores, std::vector<uint32_t>{at(0), 4});
    CHECK(std::isinf(scores[no_timestamps]));
  }
  std::vector<float> short_vocabulary(5, 1.0f);
  rule.apply(short_vocabulary, std::vector<uint32_t>{at(0), 4});
  CHECK(short_vocabulary == std::vector<float>(5, 1.0f));
}

namespace {

struct Piece {
  uint32_t start, end;
  std::vector<uint32_t> tokens;
};

void check_cut(const std::vector<uint32_t>& tokens, const std::vector<Piece>& expected, uint32_t next) {
  CAPTURE(tokens.size());
  const TimedPieces cut = cut_at_timestamps(tokens, zero, 10);
  CHECK(cut.next == next);
  REQUIRE(cut.pieces.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(cut.pieces[i].start == expected[i].start);
    CHECK(cut.pieces[i].end == expected[i].end);
    CHECK(cut.pieces[i].tokens == expected[i].tokens);
  }
}

} // namespace

TEST_CASE("a window's tokens are cut between two timestamps") {
  // The text after the last pair was cut off by the window's end, so the next window reads it again.
  check_cut({at(0), 1, 2, at(3), at(4), 3, at(6), at(6), 5, 6},
            {{0, 3, {at(0), 1, 2, at(3)}}, {4, 6, {at(4), 3, at(6)}}}, 6);
  check_cut({at(1), 1, at(3), at(3)}, {{1, 3, {at(1), 1, at(3)}}}, 3);
  // A single time at the end: there is no speech after it.
  check_cut({at(0), 1, at(3), at(5), 2, at(7)}, {{0, 3, {at(0), 1, at(3)}}, {5, 7, {at(5), 2, at(7)}}}, 10);
  check_cut({at(0), 1, at(3)}, {{0, 3, {at(0), 1, at(3)}}}, 10);
  // Without a time at the end, the text takes the whole window.
  check_cut({at(2), 1, 2}, {{2, 10, {at(2), 1, 2}}}, 10);
  check_cut({1, 2}, {{0, 10, {1, 2}}}, 10);
  check_cut({at(2)}, {{2, 10, {at(2)}}}, 10);
  check_cut({}, {}, 10);
}

TEST_CASE("the next window always begins later") {
  check_cut({at(0), at(0), 1}, {{0, 0, {at(0)}}}, 10);
  // Times after the end of the sound are set to its end.
  check_cut({at(9), 1, at(11), at(12), 2}, {{9, 10, {at(9), 1, at(11)}}}, 10);
}
