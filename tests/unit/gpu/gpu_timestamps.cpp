#include <doctest/doctest.h>

#include <array>

#include "gpu/timestamps.h"

using namespace pumice;

TEST_CASE("timestamps are counted from the first, also where their clock begins again") {
  const std::array<uint64_t, 3> ticks = {100, 150, 1100};
  const std::vector<double> all = seconds_from_first(ticks, 64, 1000);
  REQUIRE(all.size() == 3);
  CHECK(all[0] == 0);
  CHECK(all[1] == doctest::Approx(50e-6));
  CHECK(all[2] == doctest::Approx(1e-3));
  CHECK(seconds_from_first({}, 36, 1).empty());
  for (const uint32_t bits : {36u, 48u, 63u}) {
    CAPTURE(bits);
    const uint64_t last = (uint64_t{1} << bits) - 1;
    const std::array<uint64_t, 3> around = {last - 9, last, 40};
    const std::vector<double> seconds = seconds_from_first(around, bits, 1);
    CHECK(seconds[1] == doctest::Approx(9e-9));
    CHECK(seconds[2] == doctest::Approx(50e-9));
  }
}
