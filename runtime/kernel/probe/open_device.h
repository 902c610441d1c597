#pragma once

#include <filesystem>

#include "kernel/device_context.h"

namespace pumice {

// Opens a device for kernels. `cache_folder` as for Pipelines.
Result<DeviceContext> open_device(std::shared_ptr<Instance> instance, const Capabilities& chosen,
                                  const std::filesystem::path& cache_folder,
                                  const DeviceOptions& options = {});

// The same with a device that there is already. `known`: tuning results of it, which count where the cache
// folder has none.
Result<DeviceContext> open_device(std::shared_ptr<Device> device, const std::filesystem::path& cache_folder,
                                  const TuningResults& known = {});

} // namespace pumice
