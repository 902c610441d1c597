// The number of cores, by times that are made here.
#include "kernel/probe/core_count.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <doctest/doctest.h>

#include "support/require.h"

using namespace pumice;

namespace {

struct MadeDevice {
  double cores = 1;
  double noise = 0;  // a run takes up to so much longer
  bool steps = true; // a wave that is not full takes as long as a full one
  double idle = 40e-6, round = 1e-6;
};

// What count_cores() makes of it.
uint32_t counted(const MadeDevice& device) {
  std::mt19937 random(7);
  double sum = 0;
  const uint32_t found = require(count_cores([&](uint32_t groups, uint32_t rounds) -> Result<double> {
    REQUIRE(groups >= 1);
    REQUIRE(groups <= most_grid);
    const double waves = groups / device.cores,
                 whole = device.steps ? std::ceil(waves) : std::max(1.0, waves);
    const double late = device.noise * (static_cast<double>(random()) / std::mt19937::max());
    const double seconds = (device.idle + device.round * rounds * whole) * (1 + late);
    sum += 2 * seconds; // each is run twice
    return seconds;
  }));
  CHECK(sum < (device.idle < 100e-6 ? 0.25 : 1));
  return found;
}

} // namespace

TEST_CASE("cores are counted by the times of growing grids") {
  for (const bool steps : {true, false}) {
    CAPTURE(steps);
    for (const double cores : {1, 2, 6, 10, 20, 32, 60, 132, 188, 300}) {
      CAPTURE(cores);
      CHECK(counted({.cores = cores, .steps = steps}) == doctest::Approx(cores).epsilon(0.07));
      CHECK(counted({.cores = cores, .noise = 0.1, .steps = steps}) == doctest::Approx(cores).epsilon(0.15));
    }
  }
  // A slow device, and one whose launches take long.
  CHECK(counted({.cores = 2, .round = 10e-6}) == doctest::Approx(2).epsilon(0.1));
  CHECK(counted({.cores = 38, .idle = 500e-6}) == doctest::Approx(38).epsilon(0.1));
}

TEST_CASE("cores that times do not show are not known") {
  // Grids that never take longer, a clock that stands still, one that is too coarse, and nothing at all.
  CHECK(counted({.cores = 1e6}) == 0);
  CHECK(require(count_cores([](uint32_t, uint32_t) -> Result<double> { return 0.0; })) == 0);
  CHECK(require(count_cores([](uint32_t, uint32_t) -> Result<double> { return 1e-3; })) == 0);
  CHECK(cores_of({}) == 0);
  const GridTime two[] = {{1, 1e-3}, {64, 9e-3}};
  CHECK(cores_of(two) == 0);
  // One time that was disturbed does not change the count.
  std::vector<GridTime> times;
  for (uint32_t groups = 1; groups <= 128; groups += 3)
    times.push_back({groups, 1e-3 * std::max(1.0, groups / 16.0)});
  CHECK(cores_of(times) == 16);
  times[30].seconds *= 3;
  times[2].seconds *= 3;
  CHECK(cores_of(times) == 16);
  // A device that answers no more.
  CHECK(!count_cores([](uint32_t, uint32_t) -> Result<double> {
           return Error{Code::device_lost, "lost"};
         }).ok());
}
