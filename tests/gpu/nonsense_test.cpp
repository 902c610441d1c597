// A device that writes nonsense, through a replaced dispatch table: none of it is given out as a token.
#include <doctest/doctest.h>

#include <cstring>
#include <map>

#include "generate/session.h"
#include "kernel/probe/open_device.h"
#include "support/files/paths.h"
#include "support/require.h"

using namespace pumice;

namespace {

VulkanTable real;
bool nonsense = false;
std::map<VkDeviceMemory, uint64_t> sizes;
std::map<VkDeviceMemory, void*> mapped;

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  const VkResult result = real.vkAllocateMemory(device, info, callbacks, memory);
  if (result == VK_SUCCESS) sizes[*memory] = info->allocationSize;
  return result;
}
VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                       const VkAllocationCallbacks* callbacks) {
  mapped.erase(memory);
  real.vkFreeMemory(device, memory, callbacks);
}
VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                   VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
  const VkResult result = real.vkMapMemory(device, memory, offset, size, flags, data);
  if (result == VK_SUCCESS) mapped[memory] = *data;
  return result;
}
// Kernels do not run, so that nothing computes with nonsense.
VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  if (!nonsense) real.vkCmdDispatch(commands, x, y, z);
}
VKAPI_ATTR VkResult VKAPI_CALL wait(VkDevice device, const VkSemaphoreWaitInfo* info, uint64_t timeout) {
  const VkResult result = real.vkWaitSemaphores(device, info, timeout);
  if (result != VK_SUCCESS || !nonsense) return result;
  for (const auto& [memory, data] : mapped) std::memset(data, 0xff, sizes.at(memory));
  return result;
}

} // namespace

TEST_CASE("a device that writes nonsense gives an error and no token") {
  nonsense = false;
  const auto plain = require(Instance::create({}));
  real = require(Device::create(plain, require(plain->choose(""))))->table();
  InstanceOptions options;
  options.table.vkAllocateMemory = allocate;
  options.table.vkFreeMemory = free_memory;
  options.table.vkMapMemory = map;
  options.table.vkCmdDispatch = dispatch;
  options.table.vkWaitSemaphores = wait;
  const auto instance = require(Instance::create(options));
  const DeviceContext context = require(open_device(instance, require(instance->choose("")), {}));
  const auto model = require(Model::load(stories_model(), context));
  SessionOptions session_options;
  session_options.size.context = 64;
  const auto session = require(Session::create(model, session_options));
  nonsense = true;
  REQUIRE(session->prefill(std::vector<uint32_t>{1, 9, 38}, {}).ok());
  const Result<uint32_t> token = session->next();
  nonsense = false;
  REQUIRE_FALSE(token.ok());
  CHECK(token.error().code == Code::internal);
  CHECK(token.error().message.find("computed garbage: the token 4294967295") != std::string::npos);
}
