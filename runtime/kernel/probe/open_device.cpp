#include "kernel/probe/open_device.h"

#include "kernel/probe/probe.h"

namespace pumice {

Result<DeviceContext> open_device(std::shared_ptr<Instance> instance, const Capabilities& chosen,
                                  const std::filesystem::path& cache_folder, const DeviceOptions& options) {
  PUMICE_TRY(std::shared_ptr<Device> device, Device::create(std::move(instance), chosen, options));
  return open_device(std::move(device), cache_folder);
}

Result<DeviceContext> open_device(std::shared_ptr<Device> device, const std::filesystem::path& cache_folder,
                                  const TuningResults& known) {
  DeviceContext context;
  context.device = std::move(device);
  PUMICE_TRY(context.pipelines, Pipelines::create(context.device, cache_folder));
  context.pipelines->add_tuning_results(known);
  PUMICE_TRY(context.profile, choose_profile(context.device, context.pipelines));
  return context;
}

} // namespace pumice
