// A Vulkan device that the application made and goes on owning.
#include <doctest/doctest.h>

#include <atomic>

#include "gpu/instance.h"
#include "kernel/device_context.h"
#include "session/session.h"
#include "support/gpu.h"
#include "support/messages.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped =
    std::filesystem::path(PUMICE_SOURCE_DIR) / "models" / "pretrained" / "stories-2m.gguf";

// An application: an instance with validation, and a device with the features it was told.
class Application {
public:
  explicit Application(const void* features) {
    InstanceOptions options;
    options.validate = !std::getenv("PUMICE_TEST_NO_VALIDATION");
    options.validation_log = [](const std::string& message) { validation_messages().push_back(message); };
    instance_ = *Instance::create(options);
    const Capabilities chosen = *instance_->choose("");
    table_ = instance_->table();

    const float priority = 0.5f;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueFamilyIndex = static_cast<uint32_t>(chosen.compute_queue_family);
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, features};
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    REQUIRE(table_.vkCreateDevice(chosen.handle, &info, nullptr, &device_) == VK_SUCCESS);
    REQUIRE(table_.load_device(device_).ok());
    host_.get_instance_proc_addr = table_.vkGetInstanceProcAddr;
    host_.instance = instance_->handle();
    host_.physical_device = chosen.handle;
    host_.device = device_;
    host_.queue_family = queue.queueFamilyIndex;
    table_.vkGetDeviceQueue(device_, queue.queueFamilyIndex, 0, &host_.queue);
    host_.features = features;
  }
  ~Application() {
    CHECK(table_.vkDeviceWaitIdle(device_) == VK_SUCCESS); // it is still there
    table_.vkDestroyDevice(device_, nullptr);
  }

  HostDevice& host() { return host_; }

private:
  std::shared_ptr<Instance> instance_;
  VulkanTable table_;
  VkDevice device_ = VK_NULL_HANDLE;
  HostDevice host_;
};

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
  application.host().lock_queue = [&] {
    most = std::max<int>(most, ++holders);
    ++locks;
  };
  application.host().unlock_queue = [&] { --holders; };
  const auto device = Device::adopt(application.host());
  if (!device.ok()) FAIL(device.error().text());
  CHECK(tokens_on(*device) == expected_tokens());
  CHECK(locks > 8);
  CHECK(most == 1);
  CHECK(holders == 0);
}

TEST_CASE("features that the application did not enable are not used") {
  // The same feature in its own structure, behind one that means nothing here.
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  timeline.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceFeatures2 core{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &timeline};
  Application application(&core);
  const auto device = Device::adopt(application.host());
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

TEST_CASE("what is missing of the application's device is named") {
  VkPhysicalDeviceVulkan12Features none{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  Application application(&none);
  CHECK(says(Device::adopt(application.host()), {"cannot be used", "timelineSemaphore", "not enabled"}) ==
        "");

  none.timelineSemaphore = VK_TRUE; // from here on only what is handed in is looked at
  HostDevice host = application.host();
  host.queue_family = 99;
  CHECK(says(Device::adopt(host), {"queue family 99"}) == "");
  host = application.host();
  host.queue = VK_NULL_HANDLE;
  CHECK(says(Device::adopt(host), {"a queue", "null"}) == "");
  host = application.host();
  host.get_instance_proc_addr = nullptr;
  CHECK(says(Device::adopt(host), {"vkGetInstanceProcAddr", "null"}) == "");
  host = application.host();
  host.lock_queue = [] {};
  CHECK(says(Device::adopt(host), {"lock", "both functions or neither"}) == "");
}
