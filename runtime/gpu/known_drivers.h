#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "gpu/capabilities.h"

namespace pumice {

// A driver that is known to answer a question, or to run a kernel, with a crash, a hang or a lie, as somebody
// reported it. The table is consulted before a device is asked anything that only some drivers answer.
struct KnownDriver {
  // Which devices: all of these have to fit. Versions are numbers as
  // VkPhysicalDeviceProperties::driverVersion has them; each vendor packs them in its own way.
  VkDriverId driver;
  uint32_t vendor = 0;                      // of the device; 0: any
  uint32_t first = 0, fixed = UINT32_MAX;   // from `first` on, and before `fixed`
  const char* info = "";                    // how the driver's version begins as a text
  const char* name = "";                    // a part of the device's name
  std::array<uint32_t, 2> chips = {0, ~0u}; // its number: from the first on, and before the second
  bool integrated_only = false;             // only integrated GPUs have the fault
  // What is done about it.
  std::array<const char*, 2> without = {}; // extensions that are never asked for or used
  uint32_t subgroup_size = 0;              // that kernels run with, whatever the device says; 0: as it says
  bool no_exchanges = false;               // no kernel exchanges numbers within subgroups
  const char* left_out = nullptr;          // a kernel variant: its key in the blocklist
  bool one_compiler = false;               // one thread at a time makes pipelines
  bool compiles_anew = false;              // it is not given what it compiled before
  // For a person.
  const char* versions = "all versions";
  const char* fault;            // a sentence without a full stop
  const char* update = nullptr; // what to install; null: no driver without the fault is known
  const char* source;           // where it was reported

  bool is(const Capabilities& device) const;
  std::string text() const; // "101.8425 to 101.8859: the device is lost ... (https://...)"
};
std::span<const KnownDriver> known_drivers();

// Those that are this device's driver.
std::vector<KnownDriver> known_faults(const Capabilities& device);

} // namespace pumice
