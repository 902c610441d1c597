#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "gpu/device.h"
#include "gpu/pipelines.h"
#include "kernel/style.h"

namespace pumice {

// A device and what is needed to run kernels on it. Cheap to copy; the copies share everything.
struct DeviceContext {
  std::shared_ptr<Device> device;
  std::shared_ptr<Pipelines> pipelines;
  KernelStyle style;
};

// Opens a device for kernels. `cache_folder` as for Pipelines.
Result<DeviceContext> open_device(std::shared_ptr<Instance> instance, const Capabilities& chosen,
                                  const std::filesystem::path& cache_folder,
                                  const DeviceOptions& options = {});

// The same with a device that there is already.
Result<DeviceContext> open_device(std::shared_ptr<Device> device, const std::filesystem::path& cache_folder);

} // namespace pumice
