// A device that never finishes what it was given, through a replaced dispatch table.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>
#include <utility>

#include "gpu/buffer.h"
#include "gpu/commands.h"
#include "gpu/instance.h"
#include "support/command/messages.h"

using namespace pumice;

namespace {

// What the fake device reports: how far its timeline is, and how many calls destroyed something.
uint64_t reached = 0;
uint64_t steps = 0;                    // the timeline goes on by one at so many looks
std::chrono::duration<double> away(0); // how long the process is stopped during the next wait
int destroyed = 0;

VKAPI_ATTR VkResult VKAPI_CALL never(VkDevice, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
  std::this_thread::sleep_for(std::chrono::nanoseconds(timeout) + std::exchange(away, {}));
  return reached >= *info->pValues ? VK_SUCCESS : VK_TIMEOUT;
}
VKAPI_ATTR VkResult VKAPI_CALL look(VkDevice, VkSemaphore, uint64_t* value) {
  if (steps > 0) {
    --steps;
    ++reached;
  }
  *value = reached;
  return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL count_buffer(VkDevice, VkBuffer, const VkAllocationCallbacks*) {
  ++destroyed;
}
VKAPI_ATTR void VKAPI_CALL count_pool(VkDevice, VkCommandPool, const VkAllocationCallbacks*) {
  ++destroyed;
}
VKAPI_ATTR void VKAPI_CALL count_memory(VkDevice, VkDeviceMemory, const VkAllocationCallbacks*) {
  ++destroyed;
}
VKAPI_ATTR void VKAPI_CALL count_device(VkDevice, const VkAllocationCallbacks*) {
  ++destroyed;
}
VKAPI_ATTR void VKAPI_CALL count_instance(VkInstance, const VkAllocationCallbacks*) {
  ++destroyed;
}
VKAPI_ATTR VkResult VKAPI_CALL no_idle(VkDevice) {
  FAIL("a device that hangs is never idle");
  return VK_SUCCESS;
}

std::shared_ptr<Device> hanging_device(double patience) {
  reached = steps = 0;
  destroyed = 0;
  InstanceOptions instance_options;
  VulkanTable& table = instance_options.table;
  table.vkWaitSemaphores = never;
  table.vkGetSemaphoreCounterValue = look;
  table.vkDestroyBuffer = count_buffer;
  table.vkDestroyCommandPool = count_pool;
  table.vkFreeMemory = count_memory;
  table.vkDestroyDevice = count_device;
  table.vkDestroyInstance = count_instance;
  table.vkDeviceWaitIdle = no_idle;
  const auto instance = Instance::create(instance_options);
  if (!instance.ok()) FAIL(instance.error().text());
  DeviceOptions options;
  options.patience = patience;
  auto device = Device::create(*instance, *(*instance)->choose(""), options);
  if (!device.ok()) FAIL(device.error().text());
  return *device;
}

} // namespace

TEST_CASE("a device that hangs is an error, and nothing that it may use is destroyed") {
  {
    const std::shared_ptr<Device> device = hanging_device(0.1);
    const auto buffer = Buffer::create(device, 1000, MemoryUse::shared);
    const auto commands = Commands::create(device, "commands");
    REQUIRE(buffer.ok());
    REQUIRE(commands.ok());
    const auto point = device->submit({});
    REQUIRE(point.ok());
    CHECK_FALSE(device->hangs());
    CHECK(says(device->wait(*point), {"has not finished its work for 0.1 s", "another device"}) == "");
    CHECK(device->hangs());
    CHECK(device->wait(*point).error().code == Code::device_lost);
    CHECK(says(device->submit({}), {"has not finished"}) == "");
    destroyed = 0; // finding out how much memory a buffer needs makes one
  }
  CHECK(destroyed == 0);
}

TEST_CASE("a device that is slow does not hang while it goes on") {
  const std::shared_ptr<Device> device = hanging_device(0.2);
  for (int i = 0; i < 6; ++i) REQUIRE(device->submit({}).ok());
  steps = 6;
  const auto start = std::chrono::steady_clock::now();
  CHECK(device->wait({6}).ok());
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::milliseconds(1000));
  CHECK_FALSE(device->hangs());
  CHECK_FALSE(device->wait({7}).ok()); // so that it can be left as it is
}

TEST_CASE("a device does not hang while its process is stopped") {
  const std::shared_ptr<Device> device = hanging_device(1.5);
  REQUIRE(device->submit({}).ok());
  away = std::chrono::seconds(3);
  const auto start = std::chrono::steady_clock::now();
  CHECK_FALSE(device->wait({1}).ok());
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::milliseconds(4500)); // it looked once more
}
