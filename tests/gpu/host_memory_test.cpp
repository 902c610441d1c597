// Memory of the host that two devices import.
#include <algorithm>

#include <doctest/doctest.h>

#include "gpu/commands.h"
#include "gpu/device.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

constexpr uint64_t bytes = 5000; // no multiple of any page

std::shared_ptr<Device> another_device(const VulkanTable* replaced = nullptr) {
  TestGpu& gpu = TestGpu::get();
  if (!replaced) return require(Device::create(gpu.instance(), gpu.device()->capabilities()));
  InstanceOptions options;
  options.table = *replaced;
  const auto instance = require(Instance::create(options));
  return require(Device::create(instance, instance->devices().at(gpu.device()->capabilities().index)));
}

std::shared_ptr<HostMemory> memory_for(const Device& device) {
  return require(HostMemory::create(bytes, device.capabilities().host_memory_alignment));
}

void fill(const std::shared_ptr<Device>& device, const Buffer& buffer, uint32_t value) {
  Commands commands = require(Commands::create(device));
  require(commands.begin());
  commands.fill(buffer, 0, bytes, value);
  commands.host_barrier();
  require(commands.end());
  require(commands.run_and_wait());
}

Buffer copy_of(const std::shared_ptr<Device>& device, const Buffer& buffer) {
  Buffer copy = require(Buffer::create(device, bytes, MemoryUse::readback));
  Commands commands = require(Commands::create(device));
  require(commands.begin());
  commands.copy(buffer, 0, copy, 0, bytes);
  commands.host_barrier();
  require(commands.end());
  require(commands.run_and_wait());
  return copy;
}

bool all(std::span<const std::byte> found, std::byte value) {
  return found.size() == bytes && std::ranges::all_of(found, [&](std::byte each) { return each == value; });
}

VKAPI_ATTR VkResult VKAPI_CALL refuse(VkDevice, VkExternalMemoryHandleTypeFlagBits, const void*,
                                      VkMemoryHostPointerPropertiesEXT*) {
  return VK_ERROR_INVALID_EXTERNAL_HANDLE;
}

} // namespace

TEST_CASE("what one device writes into memory of the host, another one reads, and the host") {
  const std::shared_ptr<Device> first = another_device(), second = another_device();
  if (!first->can_import()) return skip("the device imports no memory of the host");
  const std::shared_ptr<HostMemory> memory = memory_for(*first);
  CHECK(reinterpret_cast<uintptr_t>(memory->bytes().data()) % first->capabilities().host_memory_alignment ==
        0);
  const Buffer here = require(Buffer::import(first, memory)), there = require(Buffer::import(second, memory));
  CHECK(all(copy_of(second, there).mapped(), std::byte{0}));
  fill(first, here, 0x5a5a5a5a);
  CHECK(all(there.mapped(), std::byte{0x5a}));
  CHECK(all(copy_of(second, there).mapped(), std::byte{0x5a}));
}

TEST_CASE("memory of the host is not counted as a device's, and outlives its buffers") {
  const std::shared_ptr<Device> device = another_device();
  if (!device->can_import()) return skip("the device imports no memory of the host");
  const std::shared_ptr<HostMemory> memory = memory_for(*device);
  {
    Buffer buffer = require(Buffer::import(device, memory));
    CHECK(device->allocated_bytes() == 0);
    const Buffer moved = std::move(buffer);
    CHECK(moved.size() == bytes);
    CHECK(moved.memory_bytes() >= bytes);
    fill(device, moved, 0x77777777);
    CHECK(memory.use_count() == 2);
  }
  CHECK(memory.use_count() == 1);
  CHECK(device->allocated_bytes() == 0);
  CHECK(all(memory->bytes().first(bytes), std::byte{0x77}));
}

TEST_CASE("memory that a driver refuses to import is an error with its name") {
  VulkanTable table;
  table.vkGetMemoryHostPointerPropertiesEXT = refuse;
  const std::shared_ptr<Device> device = another_device(&table);
  if (!device->can_import()) return skip("the device imports no memory of the host");
  const Result<Buffer> refused = Buffer::import(device, memory_for(*device));
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == Code::unsupported);
  CHECK(refused.error().text().find("VK_ERROR_INVALID_EXTERNAL_HANDLE") != std::string::npos);
}

TEST_CASE("a device whose memory comes from the application imports none") {
  TestGpu& gpu = TestGpu::get();
  DeviceOptions options;
  options.allocator.allocate = [](const MemoryRequest&) -> Result<DeviceMemory> {
    return Error{Code::out_of_memory, "none"};
  };
  options.allocator.free = [](const DeviceMemory&) {};
  const auto device = require(Device::create(gpu.instance(), gpu.device()->capabilities(), options));
  CHECK(!device->can_import());
}
