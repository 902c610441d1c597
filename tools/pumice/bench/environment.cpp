#include "bench/environment.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/statistics.h"
#include "io/checksum.h"
#include "process/this_process.h"
#include "terminal/version.h"

namespace pumice::command {

namespace {

std::optional<double> read_number(const std::filesystem::path& path) {
  double value = 0;
  if (std::ifstream(path) >> value) return value;
  return std::nullopt;
}

std::optional<double> cpu_clock() {
  std::vector<double> cores;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/cpu", error)) {
    if (const auto khz = read_number(entry.path() / "cpufreq" / "scaling_cur_freq"))
      cores.push_back(*khz / 1e3);
  }
  if (cores.empty()) {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      const size_t colon = line.find(':');
      if (line.starts_with("cpu MHz") && colon != std::string::npos) {
        cores.push_back(std::strtod(line.c_str() + colon + 1, nullptr));
      }
    }
  }
  if (cores.empty()) return std::nullopt;
  return median(cores);
}

// The driver amdgpu lists its clocks and marks the current one with a star: "1: 2100Mhz *".
std::optional<double> marked_clock(const std::filesystem::path& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.ends_with("*") && colon != std::string::npos)
      return std::strtod(line.c_str() + colon + 1, nullptr);
  }
  return std::nullopt;
}

// None if there are several devices: the system does not say which one Vulkan uses.
std::optional<double> graphics_clock() {
  std::vector<double> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/drm", error)) {
    const std::filesystem::path& card = entry.path();
    if (card.filename().string().find('-') != std::string::npos) continue; // a connector
    std::optional<double> clock = read_number(card / "gt_cur_freq_mhz");
    if (!clock) clock = marked_clock(card / "device" / "pp_dpm_sclk");
    if (clock && card.filename().string().starts_with("card")) found.push_back(*clock);
  }
  if (found.size() != 1) return std::nullopt;
  return found[0];
}

} // namespace

Clocks read_clocks(bool cpu_device) {
  Clocks clocks;
  clocks.cpu = cpu_clock();
  if (!cpu_device) clocks.device = graphics_clock();
  return clocks;
}

Environment read_environment(const OpenedDevice& device) {
  const Capabilities& capabilities = device.capabilities();
  Environment environment;
  environment.device = capabilities.name;
  environment.device_type = capabilities.type_name();
  environment.driver = capabilities.driver;
  environment.driver_version = capabilities.driver_version;
  environment.version = version_number();
  environment.command = command_line();
  environment.date = fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)));
  environment.clocks = read_clocks(capabilities.is_cpu());
  return environment;
}

std::string model_hash(const ModelFile& file) {
  constexpr size_t block = 4096, blocks = 16;
  Checksum hash;
  hash.add(file.config().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  for (const TensorView& tensor : file.tensors()) {
    hash.add(tensor.name);
    hash.add(info(tensor.type).name);
    for (uint64_t size : tensor.shape) hash.add(size);
    hash.add(uint64_t{tensor.data.size()});
    if (tensor.data.size() <= block * blocks) {
      hash.add(tensor.data);
      continue;
    }
    for (size_t i = 0; i < blocks; ++i) {
      hash.add(tensor.data.subspan((tensor.data.size() - block) / (blocks - 1) * i, block));
    }
  }
  return fmt::format("{:016x}", hash.value());
}

} // namespace pumice::command
