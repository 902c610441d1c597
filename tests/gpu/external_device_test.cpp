// A Vulkan device that the application made and goes on owning.
#include <doctest/doctest.h>

#include <atomic>

#include "generate/session.h"
#include "gpu/instance.h"
#include "kernel/probe/open_device.h"
#include "support/application.h"
#include "support/command/messages.h"
#include "support/files/paths.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped = stories_model();

std::vector<uint32_t> tokens_on(const std::shared_ptr<Device>& device) {
  const DeviceContext context = *open_device(device, {});
  const std::shared_ptr<const Model> model = *Model::load(shipped, context);
  const std::unique_ptr<Session> session = *Session::create(model, {});
  const std::vector<uint32_t> prompt = {1, 300, 400};
  CHECK(session->prefill(prompt, {}).ok());
  std::vector<uint32_t> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(*session->next());
  return tokens;
}

std::vector<uint32_t> expected_tokens() {
  const std::shared_ptr<Instance> instance = *Instance::create({});
  return tokens_on(*Device::create(instance, *instance->choose("")));
}

} // namespace

TEST_CASE("a model runs on the application's device and queue, and leaves both to it") {
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.timelineSemaphore = v12.bufferDeviceAddress = VK_TRUE;
  Application application(&v12);
  std::atomic<int> holders = 0, most = 0, locks = 0;
  application.device().lock_queue = [&] {
    most = std::max<int>(most, ++holders);
    ++locks;
  };
  application.device().unlock_queue = [&] { --holders; };
  const auto device = Device::adopt(application.device());
  if (!device.ok()) FAIL(device.error().text());
  CHECK(tokens_on(*device) == expected_tokens());
  CHECK(locks >= 2); // the prompt, and as many steps in a submission as the device is fast
  CHECK(most == 1);
  CHECK(holders == 0);
}

TEST_CASE("a queue that is given for copies too has one lock") {
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  v12.timelineSemaphore = VK_TRUE;
  Application application(&v12);
  ExternalDevice host = application.device();
  host.copy_queue_family = host.queue_family;
  host.copy_queue = host.queue;
  const auto device = Device::adopt(host);
  if (!device.ok()) FAIL(device.error().text());
  CHECK(&(*device)->copies() == &(*device)->queue());
}

TEST_CASE("features that the application did not enable are not used") {
  // The same feature in its own structure, behind one that means nothing here.
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  timeline.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &timeline};
  Application application(&core);
  const auto device = Device::adopt(application.device());
  if (!device.ok()) FAIL(device.error().text());
  const Capabilities& capabilities = (*device)->capabilities();
  CHECK_FALSE(capabilities.buffer_device_address);
  CHECK_FALSE(capabilities.float16);
  CHECK_FALSE(capabilities.storage_16bit);
  CHECK_FALSE(capabilities.integer_dot_product);
  CHECK_FALSE(capabilities.cooperative_matrix);
  CHECK(capabilities.matrix_sizes.empty());
  CHECK(tokens_on(*device) == expected_tokens());
}

TEST_CASE("the error names what the application's device lacks") {
  VkPhysicalDeviceVulkan12Features none{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  Application application(&none);
  CHECK(says(Device::adopt(application.device()), {"cannot be used", "timelineSemaphore", "not enabled"}) ==
        "");

  none.timelineSemaphore = VK_TRUE; // from here on only what is handed in is looked at
  ExternalDevice host = application.device();
  host.queue_family = 99;
  CHECK(says(Device::adopt(host), {"queue family 99"}) == "");
  host = application.device();
  host.queue = VK_NULL_HANDLE;
  CHECK(says(Device::adopt(host), {"its queue is NULL"}) == "");
  host = application.device();
  host.get_instance_proc_addr = nullptr;
  CHECK(says(Device::adopt(host), {"its get_instance_proc_addr is NULL"}) == "");
  host = application.device();
  host.lock_queue = [] {};
  CHECK(says(Device::adopt(host), {"lock_queue", "unlock_queue, or neither"}) == "");
}
