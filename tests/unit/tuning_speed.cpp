#include "tuning/measured_speed.h"

#include <doctest/doctest.h>

using namespace pumice;

namespace {

TunedClass tuned(double flops, double bytes, double seconds) {
  TunedClass result;
  result.shape_class = "planted";
  result.winner = "fast";
  VariantResult slow, fast;
  slow.variant = "slow";
  slow.flops = flops;
  slow.bytes = bytes;
  slow.seconds = 100 * seconds;
  fast = slow;
  fast.variant = "fast";
  fast.seconds = seconds;
  result.variants = {slow, fast};
  return result;
}

const DeviceSpeed phone = {20e9, 5e9};

} // namespace

TEST_CASE("the speed is half of what the chosen variants reached, by what bounds them") {
  const std::vector<TunedClass> classes = {tuned(1e12, 1e9, 0.02), tuned(2e12, 1e9, 0.08),
                                           tuned(1e9, 1e9, 0.001)};
  const std::optional<DeviceSpeed> speed = measured_speed(classes, phone);
  REQUIRE(speed);
  CHECK(speed->flops_per_second == doctest::Approx(0.5 * 3e12 / 0.1));
  CHECK(speed->bytes_per_second == doctest::Approx(0.5 * 1e12));
}

TEST_CASE("what was not measured, or is too short to say anything, leaves a rate as it was") {
  CHECK_FALSE(measured_speed({}, phone));
  const std::vector<TunedClass> brief = {tuned(1e6, 1, 50e-6), tuned(1, 1e6, 50e-6)};
  CHECK_FALSE(measured_speed(brief, phone));
  const std::vector<TunedClass> reading = {tuned(1e9, 1e9, 0.01)};
  const std::optional<DeviceSpeed> speed = measured_speed(reading, phone);
  REQUIRE(speed);
  CHECK(speed->flops_per_second == phone.flops_per_second);
  CHECK(speed->bytes_per_second == doctest::Approx(50e9));
  TunedClass none = tuned(1e12, 1e9, 0.02);
  none.winner = "another"; // which was not timed
  CHECK_FALSE(measured_speed(std::span(&none, 1), phone));
}
