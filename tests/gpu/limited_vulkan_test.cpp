// The table that holds reported devices to their limits (support/vulkan/limited_vulkan.h) notices each kind
// of mistake.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "gpu/buffer.h"
#include "gpu/commands.h"
#include "gpu/kernel_table.h"
#include "gpu/pipelines.h"
#include "gpu/timestamps.h"
#include "support/command/messages.h"
#include "support/require.h"
#include "support/vulkan/limited_vulkan.h"

using namespace pumice;

namespace {

constexpr const char* pi = "V3D 7.1 (Raspberry Pi 5)";

// A device that does nothing, and calls that are wrong.
struct Wrong {
  LimitedVulkan vulkan;
  std::shared_ptr<Instance> instance;
  Capabilities chosen;
  std::shared_ptr<Device> device;
  std::shared_ptr<Pipelines> pipelines;

  explicit Wrong(const char* name) : vulkan(reported_device(name)) {
    instance = require(Instance::create(vulkan.options()));
    chosen = require(instance->choose(""));
    device = require(Device::create(instance, chosen));
    pipelines = require(Pipelines::create(device, {}));
    CHECK(vulkan.violations() == "");
  }
  const VulkanTable& vk() const { return device->table(); }
  VkDevice handle() const { return device->handle(); }

  // That all these parts of sentences were said, and nothing else is left over.
  void said(std::initializer_list<std::string_view> parts) {
    const std::string text = vulkan.violations();
    INFO("said: " << text);
    for (const std::string_view part : parts) {
      CAPTURE(part);
      CHECK(text.find(part) != std::string::npos);
    }
    CHECK(std::ranges::count(text, '\n') == static_cast<ptrdiff_t>(parts.size()));
  }
};

// A shader that only declares: capabilities, and a workgroup's size.
std::vector<uint32_t> declarations(std::initializer_list<uint32_t> capabilities, uint32_t workgroup = 64) {
  std::vector<uint32_t> code = {0x07230203, 0x00010500, 0, 8, 0};
  for (const uint32_t capability : capabilities) code.insert(code.end(), {2u << 16 | 17, capability});
  code.insert(code.end(), {6u << 16 | 16, 1, 17, workgroup, 1, 1});
  return code;
}

VkShaderModule make_module(const Wrong& wrong, std::span<const uint32_t> code) {
  VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  info.codeSize = code.size_bytes();
  info.pCode = code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  REQUIRE(wrong.vk().vkCreateShaderModule(wrong.handle(), &info, nullptr, &module) == VK_SUCCESS);
  return module;
}

// A pipeline of such a shader. `required`: the size of subgroups that it asks for; 0: none.
void make_pipeline(const Wrong& wrong, std::span<const uint32_t> code, uint32_t required, bool full) {
  const VkShaderModule module = make_module(wrong, code);
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  subgroups.requiredSubgroupSize = required;
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.module = module;
  if (required) info.stage.pNext = &subgroups;
  if (full) info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  info.layout = wrong.pipelines->layout();
  VkPipeline pipeline = VK_NULL_HANDLE;
  CHECK(wrong.vk().vkCreateComputePipelines(wrong.handle(), VK_NULL_HANDLE, 1, &info, nullptr, &pipeline) ==
        VK_SUCCESS);
  wrong.vk().vkDestroyPipeline(wrong.handle(), pipeline, nullptr);
  wrong.vk().vkDestroyShaderModule(wrong.handle(), module, nullptr);
}

VkDeviceMemory allocate(const Wrong& wrong, uint32_t type, uint64_t bytes, VkResult expected = VK_SUCCESS) {
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.allocationSize = bytes;
  info.memoryTypeIndex = type;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  CHECK(wrong.vk().vkAllocateMemory(wrong.handle(), &info, nullptr, &memory) == expected);
  return memory;
}

constexpr uint64_t MiB = uint64_t{1} << 20;

} // namespace

TEST_CASE("too many workgroups, and none bound to work") {
  Wrong wrong(pi);
  Commands commands = require(Commands::create(wrong.device));
  require(commands.begin());
  wrong.vk().vkCmdDispatch(commands.buffers()[0], 1, 65536, 1);
  wrong.said({"65536 workgroups along an axis; V3D 7.1 (Raspberry Pi 5) has 65535", "without a pipeline"});
}

TEST_CASE("a workgroup that is too large, with its specialisation constant") {
  Wrong wrong(pi);
  require(wrong.pipelines->get("copy", {256}));
  CHECK(wrong.vulkan.violations() == "");
  require(wrong.pipelines->get("copy", {512}));
  wrong.said(
      {"512 invocations along an axis", "512 invocations in a workgroup; V3D 7.1 (Raspberry Pi 5) has 256"});
}

TEST_CASE("too much shared memory, with its specialisation constants") {
  Wrong wrong(pi);
  // Eight heads of 256 dimensions for each of two rows: queries of 16 KiB, and scores.
  require(wrong.pipelines->get("attention_portable.f32", {64, 256, 0, 0, 0, 0, 8, 2}));
  wrong.said({"bytes of shared memory; V3D 7.1 (Raspberry Pi 5) has 16384"});
  require(wrong.pipelines->get("attention_portable.f32", {64, 64, 0, 0, 0, 0, 1, 1}));
  CHECK(wrong.vulkan.violations() == "");
}

TEST_CASE("too many push constants") {
  Wrong wrong(pi);
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 132};
  VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  CHECK(wrong.vk().vkCreatePipelineLayout(wrong.handle(), &info, nullptr, &layout) == VK_SUCCESS);
  wrong.said({"132 bytes of push constants; V3D 7.1 (Raspberry Pi 5) has 128"});
  wrong.vk().vkDestroyPipelineLayout(wrong.handle(), layout, nullptr);

  Commands commands = require(Commands::create(wrong.device));
  require(commands.begin());
  const std::array<std::byte, 256> values = {};
  wrong.vk().vkCmdPushConstants(commands.buffers()[0], wrong.pipelines->layout(), VK_SHADER_STAGE_COMPUTE_BIT,
                                64, 128, values.data());
  wrong.said({"192 bytes of push constants"});
  wrong.vk().vkCmdPushConstants(commands.buffers()[0], wrong.pipelines->layout(), VK_SHADER_STAGE_COMPUTE_BIT,
                                0, 6, values.data());
  wrong.said({"multiples of 4"});
}

TEST_CASE("too many storage buffers, in a layout and in a shader") {
  Wrong wrong(pi);
  VkDescriptorSetLayoutBinding slots[9] = {};
  for (uint32_t i = 0; i < 9; ++i)
    slots[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  info.bindingCount = 9;
  info.pBindings = slots;
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  CHECK(wrong.vk().vkCreateDescriptorSetLayout(wrong.handle(), &info, nullptr, &layout) == VK_SUCCESS);
  wrong.said({"9 storage buffers to a shader; V3D 7.1 (Raspberry Pi 5) has 8"});
  wrong.vk().vkDestroyDescriptorSetLayout(wrong.handle(), layout, nullptr);

  std::vector<uint32_t> code = declarations({1});
  code.insert(code.end(), {4u << 16 | 71, 2, 33, 8}); // binding 8
  make_pipeline(wrong, code, 0, false);
  wrong.said({"a shader has 9 storage buffers, and its layout 8"});
}

TEST_CASE("a binding of too many bytes, at a wrong offset, or beyond its buffer") {
  Wrong wrong(pi);
  VkDescriptorSetLayout layout = wrong.pipelines->set_layout();
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 8};
  VkDescriptorPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool_info.maxSets = pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  REQUIRE(wrong.vk().vkCreateDescriptorPool(wrong.handle(), &pool_info, nullptr, &pool) == VK_SUCCESS);
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  REQUIRE(wrong.vk().vkAllocateDescriptorSets(wrong.handle(), &info, &set) == VK_SUCCESS);
  const Buffer buffer = require(Buffer::create(wrong.device, 200 * MiB, MemoryUse::device));
  const auto write = [&](uint64_t offset, uint64_t bytes) {
    const VkDescriptorBufferInfo bound{buffer.handle(), offset, bytes};
    VkWriteDescriptorSet writes{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes.dstSet = set;
    writes.descriptorCount = 1;
    writes.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes.pBufferInfo = &bound;
    wrong.vk().vkUpdateDescriptorSets(wrong.handle(), 1, &writes, 0, nullptr);
  };
  write(32, 128 * MiB);
  CHECK(wrong.vulkan.violations() == "");
  write(0, 128 * MiB + 4);
  wrong.said({"134217732 bytes in a binding; V3D 7.1 (Raspberry Pi 5) has 134217728"});
  write(16, MiB);
  wrong.said({"offset 16; V3D 7.1 (Raspberry Pi 5) needs multiples of 32"});
  write(128 * MiB, 128 * MiB);
  wrong.said({"134217728 bytes at offset 134217728 of a buffer of"});
  wrong.vk().vkDestroyDescriptorPool(wrong.handle(), pool, nullptr);
}

TEST_CASE("a heap that is full, and allocations that are too large or too many") {
  Wrong wrong(pi);
  std::vector<VkDeviceMemory> memories;
  for (int i = 0; i < 4; ++i) memories.push_back(allocate(wrong, 0, 1024 * MiB));
  allocate(wrong, 0, MiB, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  CHECK(wrong.vulkan.used_bytes(0) == 4096 * MiB);
  CHECK(says(Buffer::create(wrong.device, MiB, MemoryUse::device),
             {"vkAllocateMemory", "out of device memory"}) == "");
  CHECK(wrong.vulkan.violations() == "");
  for (const VkDeviceMemory memory : memories) wrong.vk().vkFreeMemory(wrong.handle(), memory, nullptr);
  const VkDeviceMemory large = allocate(wrong, 0, 1025 * MiB);
  wrong.said({"1074790400 bytes at once; V3D 7.1 (Raspberry Pi 5) has 1073741824"});
  wrong.vk().vkFreeMemory(wrong.handle(), large, nullptr);
}

TEST_CASE("too many allocations") {
  Wrong wrong("Least device of Vulkan 1.2");
  std::vector<VkDeviceMemory> memories;
  for (int i = 0; i < 4096; ++i) memories.push_back(allocate(wrong, 0, 256));
  allocate(wrong, 0, 256, VK_ERROR_TOO_MANY_OBJECTS);
  for (const VkDeviceMemory memory : memories) wrong.vk().vkFreeMemory(wrong.handle(), memory, nullptr);
  CHECK(wrong.vulkan.violations() == "");
}

TEST_CASE("memory of a wrong type, mapped or bound as it cannot be") {
  Wrong wrong("Adreno (TM)");
  allocate(wrong, 5, MiB, VK_ERROR_OUT_OF_DEVICE_MEMORY);
  wrong.said({"memory type 5; Adreno (TM) has 5"});
  const VkDeviceMemory hidden = allocate(wrong, 0, MiB), stale = allocate(wrong, 1, MiB),
                       secret = allocate(wrong, 4, MiB);
  wrong.said({"protected memory (type 4)"});
  void* pointer = nullptr;
  (void)wrong.vk().vkMapMemory(wrong.handle(), hidden, 0, VK_WHOLE_SIZE, 0, &pointer);
  wrong.said(
      {"memory type 0 of Adreno (TM) cannot be mapped", "memory type 0 of Adreno (TM) is not coherent"});
  (void)wrong.vk().vkMapMemory(wrong.handle(), stale, 0, VK_WHOLE_SIZE, 0, &pointer);
  wrong.said({"memory type 1 of Adreno (TM) is not coherent"});
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = 1024;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  REQUIRE(wrong.vk().vkCreateBuffer(wrong.handle(), &info, nullptr, &buffer) == VK_SUCCESS);
  (void)wrong.vk().vkBindBufferMemory(wrong.handle(), buffer, hidden, 8);
  wrong.said({"offset 8; buffers need multiples of 256"});
  CHECK(wrong.vk().vkBindBufferMemory(wrong.handle(), buffer, hidden, MiB) == VK_ERROR_OUT_OF_DEVICE_MEMORY);
  wrong.said({"1024 bytes at offset 1048576 of an allocation of 1048576"});
  wrong.vk().vkDestroyBuffer(wrong.handle(), buffer, nullptr);
  for (const VkDeviceMemory memory : {hidden, stale, secret})
    wrong.vk().vkFreeMemory(wrong.handle(), memory, nullptr);
}

TEST_CASE("a shader with capabilities that are not switched on") {
  Wrong wrong(pi);
  const VkShaderModule module = make_module(wrong, declarations({1, 9, 5345, 65, 5347, 6018, 6022, 4433, 5}));
  wrong.said({"shaderFloat16", "vulkanMemoryModel", "shuffles of subgroups", "bufferDeviceAddress",
              "shaderIntegerDotProduct", "cooperativeMatrix", "storageBuffer16BitAccess",
              "capability 5, which no device of these tests has"});
  wrong.vk().vkDestroyShaderModule(wrong.handle(), module, nullptr);
}

TEST_CASE("subgroups of sizes that cannot be asked for") {
  const std::vector<uint32_t> plain = declarations({1}, 96), shuffling = declarations({1, 61, 65}, 64);
  {
    Wrong wrong("Mali-G76"); // one size
    make_pipeline(wrong, plain, 8, true);
    wrong.said({"a size of subgroups, for which shaders of Mali-G76 cannot ask"});
    make_pipeline(wrong, shuffling, 0, true);
    CHECK(wrong.vulkan.violations() == "");
  }
  {
    Wrong wrong("Intel Iris Xe (TGL)"); // of 8 to 32
    make_pipeline(wrong, declarations({1}, 128), 64, false);
    wrong.said({"subgroups of 64; Intel Iris Xe (TGL) has those of 8 to 32"});
    make_pipeline(wrong, declarations({1}, 100), 8, true);
    wrong.said({"full subgroups of 8 in a workgroup of 100"});
    make_pipeline(wrong, declarations({1}, 1024), 8, false);
    wrong.said({"128 subgroups in a workgroup; Intel Iris Xe (TGL) has 64"});
    make_pipeline(wrong, shuffling, 0, false);
    wrong.said({"a kernel with shuffles, and Intel Iris Xe (TGL) chooses the size"});
  }
  Wrong wrong(pi); // Vulkan 1.2, without the extension
  make_pipeline(wrong, plain, 16, true);
  wrong.said({"without subgroupSizeControl", "for which shaders of V3D 7.1 (Raspberry Pi 5) cannot ask",
              "subgroups of 16; V3D 7.1 (Raspberry Pi 5) has those of 0 to 0"});
}

TEST_CASE("timestamps on a queue that has none") {
  Wrong wrong("Mali-G76");
  CHECK(says(Timestamps::create(wrong.device, 2), {"Mali-G76 has no timestamps"}) == "");
  Commands commands = require(Commands::create(wrong.device));
  require(commands.begin());
  commands.write_timestamp(VK_NULL_HANDLE, 0);
  wrong.said({"vkCmdWriteTimestamp: on a queue of Mali-G76 without timestamps"});
}

TEST_CASE("timestamps have the device's bits and begin again after the last of them") {
  Wrong wrong("Intel Iris Xe (TGL)");
  CHECK(wrong.chosen.timestamp_bits == 36);
  Timestamps timestamps = require(Timestamps::create(wrong.device, 2));
  Commands commands = require(Commands::create(wrong.device));
  require(commands.begin());
  timestamps.reset(commands);
  timestamps.write(commands, 0);
  timestamps.write(commands, 1);
  timestamps.finish(commands);
  require(commands.end());
  require(wrong.device->wait(require(wrong.device->submit(commands.buffers()))));
  const std::vector<double> seconds = timestamps.read();
  CHECK((seconds[1] >= 0 && seconds[1] < 1));
}

TEST_CASE("queues and command buffers of families that the device was not made with") {
  Wrong wrong("NVIDIA GeForce GTX 1650");
  CHECK(wrong.chosen.compute_queue_family == 2); // of those for compute alone
  VkQueue queue = VK_NULL_HANDLE;
  wrong.vk().vkGetDeviceQueue(wrong.handle(), 0, 0, &queue);
  wrong.said({"queue 0 of family 0"});
  VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  info.queueFamilyIndex = 0;
  VkCommandPool pool = VK_NULL_HANDLE;
  REQUIRE(wrong.vk().vkCreateCommandPool(wrong.handle(), &info, nullptr, &pool) == VK_SUCCESS);
  wrong.said({"vkCreateCommandPool: queue family 0"});
  wrong.vk().vkDestroyCommandPool(wrong.handle(), pool, nullptr);

  Commands copies = require(Commands::create(wrong.device, wrong.device->copies(), "copies"));
  require(copies.begin());
  wrong.vk().vkCmdBindPipeline(copies.buffers()[0], VK_PIPELINE_BIND_POINT_COMPUTE,
                               require(wrong.pipelines->get("copy", {64})));
  wrong.said({"vkCmdBindPipeline: on a queue that does not compute"});
  copies.barrier();
  wrong.said({"vkCmdPipelineBarrier: on a queue that does not compute"});
  (void)wrong.device->submit(copies.buffers());
  wrong.said({"commands of queue family 1 go to a queue of family 2"});
}

TEST_CASE("a buffer that two queue families use, and was made for one") {
  Wrong wrong("NVIDIA GeForce GTX 1650");
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = 64;
  info.usage = VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  VkBuffer buffer = VK_NULL_HANDLE;
  REQUIRE(wrong.vk().vkCreateBuffer(wrong.handle(), &info, nullptr, &buffer) == VK_SUCCESS);
  MemoryRequest request;
  request.bytes = 4096;
  request.memory_type_bits = 1u << request.memory_type;
  const DeviceMemory memory = require(wrong.device->allocate(request));
  REQUIRE(wrong.vk().vkBindBufferMemory(wrong.handle(), buffer, memory.memory, 0) == VK_SUCCESS);
  const Buffer from = require(Buffer::create(wrong.device, 64, MemoryUse::upload));
  Commands commands = require(Commands::create(wrong.device));
  Commands copies = require(Commands::create(wrong.device, wrong.device->copies(), "copies"));
  const VkBufferCopy region{0, 0, 64};
  for (Commands* each : {&commands, &copies}) {
    require(each->begin());
    each->copy(from.handle(), buffer, std::span(&region, 1));
  }
  wrong.said({"vkCmdCopyBuffer: on queue family 1, with a buffer that family 2 has"});
  wrong.vk().vkDestroyBuffer(wrong.handle(), buffer, nullptr);
  const std::array<uint32_t, 2> families = {0, 2};
  info.sharingMode = VK_SHARING_MODE_CONCURRENT;
  info.queueFamilyIndexCount = 2;
  info.pQueueFamilyIndices = families.data();
  REQUIRE(wrong.vk().vkCreateBuffer(wrong.handle(), &info, nullptr, &buffer) == VK_SUCCESS);
  wrong.said({"vkCreateBuffer: shared with queue family 0"});
  wrong.vk().vkDestroyBuffer(wrong.handle(), buffer, nullptr);
  wrong.device->free(memory, request.bytes);
}

TEST_CASE("a device that is made with what it does not have, or without what it must have") {
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueCount = 2;
  queue.pQueuePriorities = &priority;
  VkPhysicalDeviceShaderFloat16Int8Features float16{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  float16.shaderFloat16 = VK_TRUE;
  const char* extension = VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &float16};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = &extension;
  VkDevice device = VK_NULL_HANDLE;
  {
    Wrong wrong(pi);
    (void)wrong.instance->table().vkCreateDevice(wrong.chosen.handle, &info, nullptr, &device);
    wrong.said({"shaderFloat16 is switched on, and V3D 7.1 (Raspberry Pi 5) does not have it",
                "VK_KHR_shader_integer_dot_product, which V3D 7.1 (Raspberry Pi 5) does not have",
                "2 queues of a family; V3D 7.1 (Raspberry Pi 5) has 1"});
  }
  Wrong wrong("Apple M1 (MoltenVK)");
  queue.queueCount = 1;
  queue.queueFamilyIndex = 1;
  info.enabledExtensionCount = 0;
  (void)wrong.instance->table().vkCreateDevice(wrong.chosen.handle, &info, nullptr, &device);
  wrong.said({"a queue of family 1; Apple M1 (MoltenVK) has 1 families",
              "VK_KHR_portability_subset must be switched on"});
}

TEST_CASE("a structure that the device does not know") {
  Wrong wrong(pi);
  VkPhysicalDeviceSubgroupSizeControlProperties control{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &control};
  wrong.vk().vkGetPhysicalDeviceProperties2(wrong.chosen.handle, &properties);
  wrong.said({"which V3D 7.1 (Raspberry Pi 5) does not know"});
}

TEST_CASE("copies and fills beyond a buffer, or not of whole words") {
  Wrong wrong(pi);
  const Buffer buffer = require(Buffer::create(wrong.device, 1024, MemoryUse::device));
  Commands commands = require(Commands::create(wrong.device));
  require(commands.begin());
  commands.copy(buffer, 0, buffer, 4096, 1024);
  wrong.said({"vkCmdCopyBuffer: 1024 bytes at offset 4096 of a buffer of"});
  commands.fill(buffer, 2, 4, 0);
  wrong.said({"4 bytes at offset 2: multiples of 4"});
  commands.fill(buffer, 0, 1 << 20, 0);
  wrong.said({"vkCmdFillBuffer: 1048576 bytes at offset 0 of a buffer of"});
}

TEST_CASE("a device that is as reported makes no mistake by itself") {
  for (const ReportedDevice& device : reported_devices()) {
    CAPTURE(device.name);
    const Wrong opened(device.name.c_str());
    CHECK(opened.chosen.name == device.name);
    CHECK(opened.chosen.usable());
  }
}
