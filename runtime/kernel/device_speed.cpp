#include "kernel/device_speed.h"

#include <sstream>

#include <fmt/format.h>

#include "gpu/pipelines.h"

namespace pumice {

namespace {

constexpr const char* speed_key = "speed";

} // namespace

DeviceSpeed assumed_speed(const Capabilities& device) {
  if (device.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU) return {200e9, 20e9};
  return {}; // integrated GPUs are those of phones too, and what is behind a virtual one is not known
}

std::optional<DeviceSpeed> stored_speed(const Pipelines& pipelines) {
  const TuningResults results = pipelines.tuning_results();
  const auto value = results.find(speed_key);
  if (value == results.end()) return {};
  DeviceSpeed speed;
  std::istringstream text(value->second);
  text >> speed.flops_per_second >> speed.bytes_per_second;
  if (!text || !(speed.flops_per_second > 0) || !(speed.bytes_per_second > 0)) return {};
  return speed;
}

void store_speed(Pipelines& pipelines, const DeviceSpeed& speed) {
  pipelines.set_tuning_result(speed_key,
                              fmt::format("{:.4g} {:.4g}", speed.flops_per_second, speed.bytes_per_second));
}

} // namespace pumice
