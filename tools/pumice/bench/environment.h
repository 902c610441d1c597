#pragma once

#include <optional>
#include <string>

#include "io/model_file.h"
#include "tools/pumice/open_device.h"

// Under what conditions something was measured.
namespace pumice::command {

// In MHz, as far as the system says.
struct Clocks {
  std::optional<double> cpu;    // the median of its cores
  std::optional<double> device; // of the only graphics device, or of none
};
Clocks read_clocks(bool cpu_device);

struct Environment {
  std::string device;
  std::string device_type;
  std::string driver;
  std::string driver_version;
  std::string version; // this program's
  std::string command; // as the process was started
  std::string date;    // UTC, as ISO 8601 has it
  Clocks clocks;       // at the start
};
Environment read_environment(const OpenedDevice& device);

// Seconds since this process was started; the system keeps its start to 10 ms.
double process_age();

// 16 hexadecimal digits: a Checksum (io/checksum.h) of the model's settings and of each tensor's name,
// type, shape and data, of large ones sixteen blocks of 4 KiB that are spread over it evenly.
std::string model_hash(const ModelFile& file);
inline constexpr const char* model_hash_kind = "folded fnv1a64 of settings, tensor list and sampled data";

} // namespace pumice::command
