#include "kernel/device_context.h"

#include "kernel/probe.h"

namespace pumice {

Result<DeviceContext> open_device(std::shared_ptr<Instance> instance, const Capabilities& chosen,
                                  const std::filesystem::path& cache_folder) {
  DeviceContext context;
  PUMICE_TRY(context.device, Device::create(std::move(instance), chosen));
  PUMICE_TRY(context.pipelines, Pipelines::create(context.device, cache_folder));
  PUMICE_TRY(context.style, choose_style(context.device, context.pipelines));
  return context;
}

} // namespace pumice
