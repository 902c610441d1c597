#include "doctor/rates.h"

#include <fmt/format.h>

namespace pumice::command {

namespace {

// What the slowest devices of a type that are in use reach, less a half: below it something is wrong.
struct Expected {
  const char* type;
  double copy_gb, gflops; // each second
};

Expected expected_of(VkPhysicalDeviceType type) {
  switch (type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return {"discrete GPU", 40, 500};
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return {"integrated GPU", 8, 100};
  default:
    return {"processor", 2, 4};
  }
}

} // namespace

Verdict judge_rates(VkPhysicalDeviceType type, double copy_bytes_per_second, double flops_per_second) {
  const Expected expected = expected_of(type);
  const double copy = copy_bytes_per_second / 1e9, gflops = flops_per_second / 1e9;
  Verdict verdict{Verdict::State::good, "speed",
                  fmt::format("copies {:.1f} GB/s, computes {:.0f} GFLOP/s in 32 bits", copy, gflops)};
  verdict.details = {{"copy_bytes_per_second", copy_bytes_per_second},
                     {"flops_per_second", flops_per_second},
                     {"least_copy_bytes_per_second", expected.copy_gb * 1e9},
                     {"least_flops_per_second", expected.gflops * 1e9}};
  if (copy >= expected.copy_gb && gflops >= expected.gflops) return verdict;
  verdict.state = Verdict::State::noticed;
  verdict.text += fmt::format("; a {} should reach {:.0f} GB/s and {:.0f} GFLOP/s", expected.type,
                              expected.copy_gb, expected.gflops);
  verdict.advice.push_back(
      "Something slows the device down: other programs, a power-saving mode, heat, or an "
      "old driver. Look at it and run 'pumice doctor' again.");
  return verdict;
}

} // namespace pumice::command
