// How a device is opened: limits, priorities, what its memory report says, and submissions with semaphores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "gpu/buffer.h"
#include "gpu/instance.h"
#include "support/command/messages.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

VulkanTable real;

struct Fake {
  bool priorities = false;          // the extension is there
  VkResult refusal = VK_SUCCESS;    // of devices with a global priority
  int global_priority = 0;          // that the last device was asked for
  float queue_priority = -1;        // the same
  std::vector<std::string> enabled; // extensions of the last device
  int devices = 0;                  // that were asked for
  bool budgets = false;
  HeapBudget budget;
} fake;

VKAPI_ATTR VkResult VKAPI_CALL list_extensions(VkPhysicalDevice device, const char* layer, uint32_t* count,
                                               VkExtensionProperties* properties) {
  uint32_t all = 0;
  real.vkEnumerateDeviceExtensionProperties(device, layer, &all, nullptr);
  std::vector<VkExtensionProperties> found(all);
  real.vkEnumerateDeviceExtensionProperties(device, layer, &all, found.data());
  std::erase_if(found, [](const VkExtensionProperties& extension) {
    const std::string_view name = extension.extensionName;
    return name == VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME || name == VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME ||
           name == VK_EXT_MEMORY_BUDGET_EXTENSION_NAME;
  });
  const auto add = [&](const char* name) {
    found.emplace_back();
    std::strcpy(found.back().extensionName, name);
  };
  if (fake.priorities) add(VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME);
  if (fake.budgets) add(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (properties) std::copy_n(found.begin(), std::min<size_t>(*count, found.size()), properties);
  *count = static_cast<uint32_t>(found.size());
  return VK_SUCCESS;
}

// Notes what is asked for, and asks the driver without what it may not have.
VKAPI_ATTR VkResult VKAPI_CALL make_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                           const VkAllocationCallbacks* callbacks, VkDevice* device) {
  ++fake.devices;
  std::vector<VkDeviceQueueCreateInfo> queues(info->pQueueCreateInfos,
                                              info->pQueueCreateInfos + info->queueCreateInfoCount);
  VkDeviceQueueCreateInfo& queue = queues[0];
  const auto* global = static_cast<const VkDeviceQueueGlobalPriorityCreateInfoKHR*>(queue.pNext);
  fake.queue_priority = queue.pQueuePriorities[0];
  fake.global_priority = global ? global->globalPriority : 0;
  fake.enabled.assign(info->ppEnabledExtensionNames,
                      info->ppEnabledExtensionNames + info->enabledExtensionCount);
  if (global && fake.refusal != VK_SUCCESS) return fake.refusal;
  queue.pNext = nullptr;
  std::vector<const char*> extensions;
  for (const std::string& name : fake.enabled) {
    if (name != VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME) extensions.push_back(name.c_str());
  }
  VkDeviceCreateInfo without = *info;
  without.pQueueCreateInfos = queues.data();
  without.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  without.ppEnabledExtensionNames = extensions.data();
  return real.vkCreateDevice(physical, &without, callbacks, device);
}

VKAPI_ATTR void VKAPI_CALL read_memory(VkPhysicalDevice device, VkPhysicalDeviceMemoryProperties2* memory) {
  auto* budget = static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(memory->pNext);
  memory->pNext = nullptr;
  real.vkGetPhysicalDeviceMemoryProperties2(device, memory);
  memory->pNext = budget;
  if (!budget) return;
  for (uint32_t heap = 0; heap < memory->memoryProperties.memoryHeapCount; ++heap) {
    budget->heapBudget[heap] = fake.budget.budget;
    budget->heapUsage[heap] = fake.budget.usage;
  }
}

InstanceOptions validated() {
  InstanceOptions options;
  options.validate = std::getenv("PUMICE_TEST_NO_VALIDATION") == nullptr;
  options.validation_log = [](const std::string& message) { validation_messages().push_back(message); };
  return options;
}

std::shared_ptr<Device> open(const DeviceOptions& options = {}) {
  const auto instance = Instance::create(validated());
  if (!instance.ok()) FAIL(instance.error().text());
  auto device = Device::create(*instance, *(*instance)->choose(""), options);
  if (!device.ok()) FAIL(device.error().text());
  return *device;
}

// A device through the fake above.
std::shared_ptr<Device> open_fake(const DeviceOptions& options) {
  if (!real.vkCreateDevice) real = (*Instance::create({}))->table();
  InstanceOptions replaced;
  replaced.table.vkEnumerateDeviceExtensionProperties = list_extensions;
  replaced.table.vkCreateDevice = make_device;
  replaced.table.vkGetPhysicalDeviceMemoryProperties2 = read_memory;
  const auto instance = *Instance::create(replaced);
  auto device = Device::create(instance, *instance->choose(""), options);
  if (!device.ok()) FAIL(device.error().text());
  return *device;
}

VkSemaphore make_semaphore(const Device& device, VkSemaphoreType type) {
  VkSemaphoreTypeCreateInfo kind{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  kind.semaphoreType = type;
  const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &kind};
  VkSemaphore semaphore = VK_NULL_HANDLE;
  REQUIRE(device.table().vkCreateSemaphore(device.handle(), &info, nullptr, &semaphore) == VK_SUCCESS);
  return semaphore;
}

uint64_t counter(const Device& device, VkSemaphore semaphore) {
  uint64_t value = 0;
  CHECK(device.table().vkGetSemaphoreCounterValue(device.handle(), semaphore, &value) == VK_SUCCESS);
  return value;
}

} // namespace

TEST_CASE("an allocation that would pass the limit fails, and says what there is") {
  constexpr uint64_t limit = 1 << 20;
  const auto device = open({limit});
  const auto first = Buffer::create(device, limit / 2, MemoryUse::device);
  REQUIRE(first.ok());
  const uint64_t allocated = device->allocated_bytes();
  CHECK(allocated == first->memory_bytes());
  CHECK(*Buffer::memory_needed(*device, limit / 2) == allocated);
  const auto second = Buffer::create(device, limit / 2, MemoryUse::device);
  CHECK(says(second, {std::to_string(limit), std::to_string(allocated), "limit"}) == "");
  CHECK(second.error().code == Code::out_of_memory);
  CHECK(device->allocated_bytes() == allocated);
  CHECK(device->memory().limit == limit);
  CHECK(device->memory().available <= limit - allocated);
  CHECK(Buffer::create(device, limit / 4, MemoryUse::device).ok());
}

TEST_CASE("threads that allocate at once stay below the limit together") {
  constexpr uint64_t limit = 1 << 20;
  const auto device = open({limit});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) (void)Buffer::create(device, limit / 3, MemoryUse::device);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(device->allocated_bytes() == 0);
  CHECK(device->peak_bytes() > 0);
  CHECK(device->peak_bytes() <= limit);
}

TEST_CASE("a queue's priorities are handed to the driver") {
  fake = {};
  DeviceOptions options;
  options.queue_priority = 0.25f;
  CHECK(open_fake(options)->notes().empty());
  CHECK(fake.queue_priority == 0.25f);
  CHECK(fake.global_priority == 0);

  fake.priorities = true;
  options.global_priority = GlobalPriority::low;
  CHECK(open_fake(options)->notes().empty());
  CHECK(fake.global_priority == VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR);
  CHECK(std::ranges::count(fake.enabled, VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME) == 1);
  options.global_priority = GlobalPriority::realtime;
  CHECK(open_fake(options)->notes().empty());
  CHECK(fake.global_priority == VK_QUEUE_GLOBAL_PRIORITY_REALTIME_KHR);
}

TEST_CASE("a global priority that is refused is left out, with a note") {
  fake = {};
  DeviceOptions options;
  options.global_priority = GlobalPriority::high;
  const auto without = open_fake(options);
  REQUIRE(without->notes().size() == 1);
  CHECK(without->notes()[0].find("(high)") != std::string::npos);
  CHECK(without->notes()[0].find("VK_KHR_global_priority") != std::string::npos);
  CHECK(fake.global_priority == 0);

  fake.priorities = true;
  for (VkResult refusal : {VK_ERROR_NOT_PERMITTED_KHR, VK_ERROR_INITIALIZATION_FAILED}) {
    fake.refusal = refusal;
    fake.devices = 0;
    const auto refused = open_fake(options);
    REQUIRE(refused->notes().size() == 1);
    CHECK(refused->notes()[0].find("refused the global priority") != std::string::npos);
    CHECK(fake.global_priority == 0);
    CHECK(fake.devices == 2);
  }
  fake.refusal = VK_ERROR_OUT_OF_HOST_MEMORY; // which is no refusal
  InstanceOptions replaced;
  replaced.table.vkEnumerateDeviceExtensionProperties = list_extensions;
  replaced.table.vkCreateDevice = make_device;
  const auto failing = *Instance::create(replaced);
  CHECK(says(Device::create(failing, *failing->choose(""), options), {"vkCreateDevice"}) == "");
}

TEST_CASE("options that make no sense are refused") {
  const auto instance = *Instance::create({});
  const Capabilities chosen = *instance->choose("");
  for (float priority : {-0.5f, 1.5f, std::nanf("")}) {
    DeviceOptions options;
    options.queue_priority = priority;
    CHECK(says(Device::create(instance, chosen, options), {"priority", "from 0 to 1"}) == "");
  }
  DeviceOptions options;
  options.allocator.allocate = [](const MemoryRequest&) { return Result<DeviceMemory>(DeviceMemory()); };
  CHECK(says(Device::create(instance, chosen, options), {"allocate and free"}) == "");
}

TEST_CASE("the memory report limits the driver's budget to the heap's size") {
  fake = {};
  fake.budgets = true;
  const auto device = open_fake({});
  const uint64_t heap = device->memory().heap;
  CHECK(heap == device->capabilities().memory_bytes);
  const auto buffer = *Buffer::create(device, 1 << 20, MemoryUse::device);
  const uint64_t left = heap - buffer.memory_bytes();
  CHECK(device->memory().allocated == buffer.memory_bytes());
  CHECK(device->memory().available == left); // a budget of 0
  fake.budget = {heap / 2, heap / 4};
  CHECK(device->memory().available == heap / 2 - heap / 4);
  fake.budget = {heap * 8, 0};
  CHECK(device->memory().available == left);
  fake.budget = {heap / 2, heap * 2};
  CHECK(device->memory().available == left);
  fake.budget = {heap / 2, heap / 2 + 1};
  CHECK(device->memory().available == 0);
}

TEST_CASE("the real driver's memory report makes sense") {
  const auto device = open();
  const auto buffer = *Buffer::create(device, 1 << 20, MemoryUse::device);
  const MemoryReport report = device->memory();
  CHECK(report.allocated == buffer.memory_bytes());
  CHECK(report.peak == report.allocated);
  CHECK(report.limit == 0);
  CHECK(report.available > 0);
  CHECK(report.available <= report.heap - report.allocated);
}

TEST_CASE("a submission waits for an application's semaphores and signals them, without commands too") {
  const auto device = open();
  const VulkanTable& vk = device->table();
  const auto signal_semaphore =
      reinterpret_cast<PFN_vkSignalSemaphore>(vk.vkGetDeviceProcAddr(device->handle(), "vkSignalSemaphore"));
  REQUIRE(bool(signal_semaphore));
  const VkSemaphore gate = make_semaphore(*device, VK_SEMAPHORE_TYPE_TIMELINE);
  const VkSemaphore done = make_semaphore(*device, VK_SEMAPHORE_TYPE_TIMELINE);
  const VkSemaphore binary = make_semaphore(*device, VK_SEMAPHORE_TYPE_BINARY);

  const SemaphoreValue waits[] = {{gate, 3}}, signals[] = {{done, 7}, {binary, 0}};
  const auto first = device->submit({}, {waits, signals});
  REQUIRE(first.ok());
  CHECK(*device->completed() < *first);
  CHECK(counter(*device, done) == 0);

  VkSemaphoreSignalInfo open_gate{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
  open_gate.semaphore = gate;
  open_gate.value = 3;
  REQUIRE(signal_semaphore(device->handle(), &open_gate) == VK_SUCCESS);
  const SemaphoreValue after[] = {{binary, 0}}, last[] = {{done, 9}};
  const auto second = device->submit({}, {after, last});
  REQUIRE(second.ok());
  CHECK(second->value == first->value + 1);
  CHECK(device->wait(*second).ok());
  CHECK(*device->completed() == *second);
  CHECK(counter(*device, done) == 9);
  for (VkSemaphore semaphore : {gate, done, binary})
    vk.vkDestroySemaphore(device->handle(), semaphore, nullptr);
}
