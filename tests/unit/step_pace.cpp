// How many rows steps may have, on devices that are made up.
#include "step/batch/step_pace.h"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

using namespace pumice;

namespace {

constexpr uint32_t texts = 8, chunk = 128;

struct Read {
  uint32_t steps = 0;
  double longest = 0; // seconds of a step
};

// Reads a prompt beside texts that go on: a step takes seconds(rows, position).
Read read_prompt(StepPace& pace, uint32_t tokens, const std::function<double(uint32_t, uint32_t)>& seconds) {
  Read read;
  for (uint32_t at = 0; at < tokens;) {
    const uint32_t rows = pace.rows(texts + 1, chunk);
    REQUIRE(rows >= texts + 1);
    REQUIRE(rows <= chunk);
    const double took = seconds(rows, at);
    pace.took(rows, took);
    read.longest = std::max(read.longest, took);
    at += rows - texts;
    ++read.steps;
  }
  return read;
}

} // namespace

TEST_CASE("steps take no longer than the limit, and not much less") {
  for (const double limit : {0.08, 0.1, 0.3}) {
    CAPTURE(limit);
    StepPace pace(limit);
    pace.guess(chunk, 5);
    // Reads 300 tokens a second, and the longer the text, the fewer.
    const auto device = [](uint32_t rows, uint32_t at) { return 0.01 + rows / 300.0 * (1 + at / 6000.0); };
    const Read read = read_prompt(pace, 1500, device);
    CHECK(read.longest <= limit);
    CHECK(read.longest > 0.7 * limit);
    const double fewest = 1500 / ((limit - 0.01) * 300 / 1.25 - texts);
    CHECK(read.steps < 1.7 * fewest + 8);
  }
}

TEST_CASE("without a limit steps are whole chunks, and one that nothing fits has a token of each text") {
  CHECK(StepPace().rows(9, chunk) == chunk);
  StepPace pace(1e-6);
  pace.guess(chunk, 1);
  const Read read = read_prompt(pace, 100, [](uint32_t, uint32_t) { return 0.05; });
  CHECK(read.steps == 100);
  CHECK(StepPace(1).rows(200, chunk) == chunk);
}

TEST_CASE("the first step is a short one, whatever it is expected to take") {
  StepPace pace(1);
  pace.guess(chunk, 1e-3);
  CHECK(pace.rows(9, chunk) == 25);
  pace.took(25, 0.01);
  CHECK(pace.rows(9, chunk) == chunk);
}

TEST_CASE("a step that took long once does not make all later ones short") {
  StepPace pace(0.1);
  const auto device = [](uint32_t rows, uint32_t) { return rows * 1e-3; };
  read_prompt(pace, 1000, device);
  const uint32_t before = pace.rows(9, chunk);
  CHECK(before > 70);
  pace.took(before, 3); // another program had the device
  CHECK(pace.rows(9, chunk) < before);
  read_prompt(pace, 4000, device);
  CHECK(pace.rows(9, chunk) > 70);
}

TEST_CASE("sizes from which on steps take much more are left alone") {
  StepPace pace(0.1);
  uint32_t too_long = 0, steps = 0;
  const auto device = [&](uint32_t rows, uint32_t) {
    const double seconds = rows > 32 ? 0.3 : 0.02;
    ++steps;
    too_long += seconds > 0.1;
    return seconds;
  };
  read_prompt(pace, 6000, device);
  CHECK(steps > 200);
  CHECK(too_long < steps / 20);
}
