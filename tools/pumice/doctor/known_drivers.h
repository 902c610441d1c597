#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/capabilities.h"

namespace pumice::command {

// Versions of a driver that are known to be bad, as somebody reported it. Versions are numbers as
// VkPhysicalDeviceProperties::driverVersion has them; each vendor packs them in its own way.
struct KnownDriver {
  VkDriverId driver;
  uint32_t first, fixed; // from `first` on, and before `fixed`
  bool integrated_only;  // only integrated GPUs have the fault
  const char* versions;  // for a person
  const char* fault;     // a sentence without a full stop
  const char* update;    // what to install
  const char* source;    // where it was reported
};
std::span<const KnownDriver> known_drivers();

// Those that are this device's driver.
std::vector<KnownDriver> known_faults(const Capabilities& device);

} // namespace pumice::command
