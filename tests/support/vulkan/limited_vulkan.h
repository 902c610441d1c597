#pragma once

#include <string>
#include <vector>

#include "gpu/instance.h"
#include "support/vulkan/device_profiles.h"

// A Vulkan whose only device is a reported one. Every call is held to the device's limits, as a validation
// layer would, and then goes to a driver. There is one at a time in a process; it must outlive what is made
// with it. Several threads may use its functions.
class LimitedVulkan {
public:
  enum class Driver {
    idle,    // support/vulkan/idle_vulkan.h: the device is exactly as reported
    machine, // the machine's first device computes: what it cannot do the reported device cannot do either
  };
  explicit LimitedVulkan(const ReportedDevice& device, Driver driver = Driver::idle);
  ~LimitedVulkan();
  LimitedVulkan(const LimitedVulkan&) = delete;
  LimitedVulkan& operator=(const LimitedVulkan&) = delete;

  // For Instance::create().
  pumice::InstanceOptions options() const;

  // The device as its limits are kept.
  const ReportedDevice& device() const;
  // What was wrong since the last call: a line for each kind of mistake, empty if nothing was.
  std::string violations();
  // How often the queues of a family were given work.
  uint64_t submissions(uint32_t family) const;
  // Bytes that are allocated of a heap.
  uint64_t used_bytes(uint32_t heap) const;
};
