#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/progress.h"
#include "gpu/device.h"
#include "gpu/pipelines.h"
#include "kernel/device_profile.h"

namespace pumice {

// A device and what is needed to run kernels on it. Cheap to copy; the copies share everything.
struct DeviceContext {
  std::shared_ptr<Device> device;
  std::shared_ptr<Pipelines> pipelines;
  DeviceProfile profile;
  // Once it is set, no further kernels are compiled and no further steps are submitted: the call returns
  // `cancelled`. Null: never. It must outlive everything that is made with this context.
  const std::atomic<bool>* interrupt = nullptr;
  // Called while kernels are compiled, with the number of them. Where it is empty, a step's kernels are
  // compiled when it first runs, unless Runner::prepare_all() is called.
  Progress compiling = {};
  size_t compiling_threads = 0; // that compile a step's kernels beside the calling one
  // Where plans are made for a device that is not here (forecast/chip.h), and `device` and `pipelines` are
  // null: what it can do.
  std::shared_ptr<const Capabilities> absent = {};

  const Capabilities& capabilities() const { return device ? device->capabilities() : *absent; }
  bool interrupted() const { return interrupt && *interrupt; }
};

} // namespace pumice
