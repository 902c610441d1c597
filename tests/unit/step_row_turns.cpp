// How many texts have a row in a step, on devices that are made up.
#include "step/batch/row_turns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
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
