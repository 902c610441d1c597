#pragma once

#include <memory>
#include <string>

#include "gpu/device.h"
#include "gpu/pipelines.h"
#include "kernel/device_profile.h"

namespace pumice {

// A device and what is needed to run kernels on it. Cheap to copy; the copies share everything.
struct DeviceContext {
  std::shared_ptr<Device> device;
  std::shared_ptr<Pipelines> pipelines;
  DeviceProfile profile;
};

} // namespace pumice
