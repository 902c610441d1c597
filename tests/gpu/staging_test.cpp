// A device whose own memory the host cannot reach: the real one, saying so.
#include <doctest/doctest.h>

#include "kernel/probe/open_device.h"
#include "step/cache/memory_needs.h"
#include "support/files/paths.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"
#include "support/session.h"
#include "support/vulkan/mapped_memory.h"

using namespace pumice;

namespace {

VulkanTable real;
uint32_t real_type = 0;

// Memory type 0 is the device's, type 1 the host's; both stand for a real type that the host can map.
VKAPI_ATTR void VKAPI_CALL split_memory(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2* properties) {
  VkPhysicalDeviceMemoryProperties& memory = properties->memoryProperties;
  memory = {};
  memory.memoryTypeCount = 2;
  memory.memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  memory.memoryTypes[1] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 1};
  memory.memoryHeapCount = 2;
  memory.memoryHeaps[0] = {uint64_t{1} << 32, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory.memoryHeaps[1] = {uint64_t{1} << 32, 0};
}
VKAPI_ATTR void VKAPI_CALL either_type(VkDevice device, VkBuffer buffer, VkMemoryRequirements* requirements) {
  real.vkGetBufferMemoryRequirements(device, buffer, requirements);
  requirements->memoryTypeBits = 3;
}
VKAPI_ATTR VkResult VKAPI_CALL allocate_real(VkDevice device, const VkMemoryAllocateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  VkMemoryAllocateInfo mapped = *info;
  mapped.memoryTypeIndex = real_type;
  return real.vkAllocateMemory(device, &mapped, callbacks, memory);
}

const std::filesystem::path shipped = stories_model();

DeviceContext device_on(const InstanceOptions& options) {
  const auto instance = require(Instance::create(options));
  const Capabilities chosen = require(instance->choose(""));
  return require(open_device(instance, chosen, {}));
}

InstanceOptions split() {
  // Not destroyed: with its last instance the driver goes, and with it what the table points to.
  static const DeviceContext* plain = new DeviceContext(device_on({}));
  real = plain->device->table();
  real_type = mapped_memory_type(plain->device->memory_properties());
  InstanceOptions options;
  options.table.vkGetPhysicalDeviceMemoryProperties2 = split_memory;
  options.table.vkGetBufferMemoryRequirements = either_type;
  options.table.vkAllocateMemory = allocate_real;
  return options;
}

std::unique_ptr<Session> session_of(const std::shared_ptr<const Model>& model) {
  SessionOptions options;
  options.size.context = 64;
  return require(Session::create(model, options));
}

} // namespace

TEST_CASE(
    "where the host cannot reach the device's memory, weights and saved sessions are copied there and back") {
  const DeviceContext device = device_on({});
  const auto plain_model = require(Model::load(shipped, device));
  const auto split_model = require(Model::load(shipped, device_on(split())));

  const auto plain = session_of(plain_model), split = session_of(split_model);
  CHECK(split->runner().cache_allocation(0).mapped().empty());
  const bool maps_all = require(Buffer::will_be_mapped(*device.device, MemoryUse::device));
  CHECK(plain->runner().cache_allocation(0).mapped().empty() != maps_all);
  const std::vector<uint32_t> prompt = {1, 300, 400, 500, 600, 700, 800, 900, 1000};
  REQUIRE(plain->prefill(prompt, {}).ok());
  REQUIRE(split->prefill(prompt, {}).ok());
  CHECK(take(*plain, 12) == take(*split, 12));
  const TemporaryFolder folder;
  REQUIRE(plain->save(folder.path() / "plain").ok());
  REQUIRE(split->save(folder.path() / "split").ok());
  const std::vector<uint32_t> after = take(*plain, 20);
  for (const auto& [model, name] : {std::pair(plain_model, "split"), std::pair(split_model, "plain")}) {
    const auto session = session_of(model);
    REQUIRE(session->restore(folder.path() / name).ok());
    CHECK(take(*session, 20) == after);
    REQUIRE(session->prefill({}, {}).ok());
    CHECK(session->reused() > prompt.size());
  }
}

TEST_CASE("the staging memory of loading weights is planned for, and freed") {
  for (const UploadBudget& budget : {UploadBudget{}, UploadBudget{1e-3, 0}, UploadBudget{0, 300'000}}) {
    CAPTURE(budget.seconds);
    CAPTURE(budget.bytes);
    LoadOptions options;
    options.budget = budget;
    const DeviceContext context = device_on(split());
    const uint64_t probed = context.device->peak_bytes();
    const auto planned = require(Model::plan(require(ModelFile::open(shipped)), context, options));
    const MemoryNeeds needs = require(memory_needs(*planned, require(usual_runners(*planned, {}))));
    CHECK(needs.loading > 0);
    CHECK(needs.peak() >= needs.weights + needs.loading);
    REQUIRE(needs.weights + needs.loading > probed);
    const auto model = require(Model::load(shipped, context, {}, options));
    CHECK(context.device->peak_bytes() == needs.weights + needs.loading);
    CHECK(context.device->allocated_bytes() == needs.weights);
    CHECK(require(memory_needs(*model, {})).loading == 0);
  }
}
