#include "tuning/measured_speed.h"

#include <algorithm>

namespace pumice {

namespace {

constexpr double share_kept = 0.5;
// Less than this in all says more of the clock and of starting kernels than of the device.
constexpr double least_seconds = 100e-6;

} // namespace

std::optional<DeviceSpeed> measured_speed(std::span<const TunedClass> classes, const DeviceSpeed& before) {
  double flops = 0, computing = 0, bytes = 0, reading = 0;
  for (const TunedClass& tuned : classes) {
    const auto winner = std::ranges::find(tuned.variants, tuned.winner, &VariantResult::variant);
    if (winner == tuned.variants.end() || !(winner->seconds > 0)) continue;
    if (winner->flops / before.flops_per_second > winner->bytes / before.bytes_per_second) {
      flops += winner->flops;
      computing += winner->seconds;
    } else {
      bytes += winner->bytes;
      reading += winner->seconds;
    }
  }
  const bool computed = flops > 0 && computing > least_seconds, read = bytes > 0 && reading > least_seconds;
  if (!computed && !read) return {};
  DeviceSpeed speed = before;
  if (computed) speed.flops_per_second = share_kept * flops / computing;
  if (read) speed.bytes_per_second = share_kept * bytes / reading;
  return speed;
}

} // namespace pumice
