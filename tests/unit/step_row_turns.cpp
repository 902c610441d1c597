// How many texts have a row in a step, on devices that are made up.
#include "step/batch/row_turns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <vector>

using namespace pumice;

namespace {

const std::vector<uint32_t> sizes = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12, 14,
                                     16, 20, 24, 28, 32, 40, 48, 56, 64, 128};

// Tokens per second after a while: steps of a size take seconds(size, step).
double speed(uint32_t texts, uint32_t steps, const std::function<double(uint32_t, uint32_t)>& seconds) {
  RowTurns turns(sizes);
  double last_seconds = 0;
  uint32_t last_tokens = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    const uint32_t rows = turns.rows(texts);
    REQUIRE(rows >= 1);
    REQUIRE(rows <= texts);
    const double took = seconds(*std::ranges::lower_bound(sizes, rows), step);
    turns.took(rows, took);
    if (step < 20) continue;
    last_seconds += took;
    last_tokens += rows;
  }
  return last_tokens / last_seconds;
}

} // namespace

TEST_CASE("a text more never makes all texts slower, whatever steps take") {
  struct Device {
    std::function<double(uint32_t)> seconds;
    uint32_t most; // texts
  };
  const Device devices[] = {
      {[](uint32_t rows) { return 1.0 + 0.01 * rows; }, 64}, // weights' traffic
      {[](uint32_t rows) { return 0.2 + rows; }, 64},        // arithmetic: padding counts
      {[](uint32_t rows) { return rows <= 8 ? 1.0 + 0.01 * rows : 3 + 0.1 * rows; }, 16}, // two kernels
      {[](uint32_t rows) { return 2.0 * ((rows + 15) / 16) + 0.3 * rows; }, 64}, // a kernel for sixteen
  };
  for (const Device& device : devices) {
    double best = 0;
    for (uint32_t texts = 1; texts <= device.most; ++texts) {
      CAPTURE(texts);
      const double now = speed(texts, 200, [&](uint32_t rows, uint32_t) { return device.seconds(rows); });
      CHECK(now > 0.965 * best); // what is not clearly faster is not done
      best = std::max(best, now);
    }
  }
}

// Milliseconds of processor time as they were measured, and between sizes by straight lines.
struct MeasuredDevice {
  std::map<uint32_t, double> steps;
  double seconds(uint32_t rows) const {
    const auto above = steps.lower_bound(rows), below = std::prev(above);
    if (above->first == rows) return above->second;
    const double part = double(rows - below->first) / (above->first - below->first);
    return below->second + part * (above->second - below->second);
  }
};

TEST_CASE("a text more does not make short runs slower from their first step on") {
  // A model of 125 million parameters on lavapipe with two processors.
  const MeasuredDevice devices[] = {
      {{{1, 13.3},
        {2, 20.2},
        {4, 26.3},
        {8, 46},
        {12, 55.7},
        {16, 67.2},
        {20, 99.2},
        {24, 111.8},
        {28, 118.4},
        {32, 140},
        {40, 186.1},
        {48, 206},
        {56, 236},
        {64, 261}}}, // Q8_0, Mesa 26.1.6
      {{{1, 14},
        {4, 24.1},
        {8, 43.3},
        {10, 49},
        {12, 58.1},
        {16, 67.8},
        {20, 94.8},
        {24, 108.9},
        {28, 121.1},
        {32, 147.6},
        {40, 170},
        {48, 207.5},
        {64, 280}}},                                                                     // F16
      {{{1, 20}, {8, 88}, {16, 150}, {20, 174.3}, {32, 248.8}, {40, 314.9}, {64, 490}}}, // Q8_0, Mesa 22.3.6
  };
  for (const MeasuredDevice& device : devices) {
    double before = 0;
    for (uint32_t texts = 1; texts <= 64; ++texts) {
      CAPTURE(texts);
      RowTurns turns(sizes);
      double seconds = 0;
      uint32_t tokens = 0;
      while (tokens < 64 * texts) {
        const uint32_t rows = turns.rows(texts);
        CHECK(4 * rows >= texts); // nobody waits long
        const double took = device.seconds(*std::ranges::lower_bound(sizes, rows));
        turns.took(rows, took);
        seconds += took;
        tokens += rows;
      }
      CHECK(tokens / seconds > 0.95 * before);
      before = tokens / seconds;
    }
  }
}

TEST_CASE("steps that take long now and then do not send texts to rest") {
  const double calm = speed(16, 500, [](uint32_t rows, uint32_t) { return 1 + 0.1 * rows; });
  const double busy =
      speed(16, 500, [](uint32_t rows, uint32_t step) { return (1 + 0.1 * rows) * (step % 5 ? 1 : 4); });
  CHECK(busy > 0.98 * calm / 1.6);
}

TEST_CASE("where fewer texts were faster once, all are tried again") {
  RowTurns turns(sizes);
  uint32_t all = 0;
  for (uint32_t step = 0; step < 1000; ++step) {
    const uint32_t rows = turns.rows(9);
    turns.took(rows, rows == 9 && step < 500 ? 3 : 1);
    all += step >= 900 && rows == 9;
  }
  CHECK(all >= 90); // fewer are tried again, too
}

TEST_CASE("where fewer texts were slow only once, they are tried again") {
  RowTurns turns(sizes);
  uint32_t fewer = 0;
  for (uint32_t step = 0; step < 1000; ++step) {
    const uint32_t rows = turns.rows(33);
    turns.took(rows, rows == 33 ? 4 : step < 100 ? 9 : 3); // the machine is busy when they are tried first
    fewer += step >= 900 && rows == 32;
  }
  CHECK(fewer >= 90);
}
