#pragma once

#include <optional>
#include <string>

#include "io/model_file.h"
#include "loading/open_device.h"

// The conditions of a measurement: device, driver, clocks, model.
namespace pumice::command {

// Clock rates in MHz. Empty if the system does not report them.
struct Clocks {
  std::optional<double> cpu;    // the median of the cores
  std::optional<double> device; // of the graphics device, if there is exactly one
};
Clocks read_clocks(bool cpu_device);

struct Environment {
  std::string device;
  std::string device_type;
  std::string driver;
  std::string driver_version;
  std::string version; // of this program
  std::string command; // the command line
  std::string date;    // UTC, in ISO 8601
  Clocks clocks;       // at the start
};
Environment read_environment(const OpenedDevice& device);

// 16 hexadecimal digits: a Checksum (io/checksum.h) of the model's settings and of each tensor's name,
// type, shape and data, of large ones sixteen blocks of 4 KiB that are spread over it evenly.
std::string model_hash(const ModelFile& file);
inline constexpr const char* model_hash_kind = "folded fnv1a64 of settings, tensor list and sampled data";

} // namespace pumice::command
