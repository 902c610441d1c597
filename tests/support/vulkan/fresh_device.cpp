#include "support/vulkan/fresh_device.h"

#include <doctest/doctest.h>

#include "support/vulkan/gpu.h"

using namespace pumice;

DeviceContext fresh_device(const DeviceOptions& options) {
  TestGpu& gpu = TestGpu::get();
  auto device = Device::create(gpu.instance(), gpu.device()->capabilities(), options);
  if (!device.ok()) FAIL(device.error().text());
  auto pipelines = Pipelines::create(*device, {});
  if (!pipelines.ok()) FAIL(pipelines.error().text());
  return {*device, *pipelines, gpu.profile};
}
