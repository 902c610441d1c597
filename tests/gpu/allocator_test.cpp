// An application that hands out the device memory itself.
#include <doctest/doctest.h>

#include <map>
#include <mutex>

#include "generate/session.h"
#include "support/command/messages.h"
#include "support/files/paths.h"
#include "support/skip.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

const std::filesystem::path shipped = stories_model();

// Ranges of one large allocation, each behind a gap that its alignment allows.
class Arena {
public:
  ~Arena() {
    if (memory_) vk().vkFreeMemory(device_->handle(), memory_, nullptr);
  }

  Allocator functions() {
    Allocator allocator;
    allocator.allocate = [this](const MemoryRequest& request) { return allocate(request); };
    allocator.free = [this](const DeviceMemory& memory) {
      std::lock_guard lock(mutex_);
      CHECK(ranges.erase(memory.offset) == 1);
      CHECK(memory.memory == memory_);
      CHECK(memory.handle == this);
    };
    allocator.map = [this](const DeviceMemory& memory) -> void* {
      return mapped_ && maps ? mapped_ + memory.offset : nullptr;
    };
    return allocator;
  }

  // Before the device goes, which has to be last.
  void watch(std::shared_ptr<Device> device) { device_ = std::move(device); }

  std::map<uint64_t, uint64_t> ranges; // where they begin and end
  std::vector<MemoryRequest> requests;
  uint64_t shift = 0; // added to offsets
  bool maps = true;

private:
  static constexpr uint64_t bytes = uint64_t{64} << 20;
  const VulkanTable& vk() const { return device_->table(); }

  Result<DeviceMemory> allocate(const MemoryRequest& request) {
    std::lock_guard lock(mutex_);
    requests.push_back(request);
    if (!memory_) {
      VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
      flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
      VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                request.device_address ? &flags : nullptr};
      info.allocationSize = bytes;
      info.memoryTypeIndex = request.memory_type;
      REQUIRE(vk().vkAllocateMemory(device_->handle(), &info, nullptr, &memory_) == VK_SUCCESS);
      void* pointer = nullptr;
      REQUIRE(vk().vkMapMemory(device_->handle(), memory_, 0, VK_WHOLE_SIZE, 0, &pointer) == VK_SUCCESS);
      mapped_ = static_cast<std::byte*>(pointer);
    }
    // One alignment is left out, so that no range begins where the memory does.
    const uint64_t end = ranges.empty() ? 0 : ranges.rbegin()->second;
    const uint64_t begin = (end / request.alignment + 2) * request.alignment + shift;
    if (begin + request.bytes > bytes) return Error{Code::out_of_memory, "the arena is full"};
    ranges.emplace(begin, begin + request.bytes);
    return DeviceMemory{memory_, begin, this};
  }

  std::mutex mutex_;
  std::shared_ptr<Device> device_;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  std::byte* mapped_ = nullptr;
};

std::shared_ptr<Device> open(const DeviceOptions& options) {
  InstanceOptions validated;
  validated.validate = !std::getenv("PUMICE_TEST_NO_VALIDATION");
  validated.validation_log = [](const std::string& message) { validation_messages().push_back(message); };
  const auto instance = *Instance::create(validated);
  auto device = Device::create(instance, *instance->choose(""), options);
  if (!device.ok()) FAIL(device.error().text());
  return *device;
}

std::vector<uint32_t> tokens_on(const std::shared_ptr<Device>& device) {
  const DeviceContext context = *open_device(device, {});
  const auto model = *Model::load(shipped, context);
  SessionOptions options;
  options.size.context = 128;
  const auto session = *Session::create(model, options);
  const std::vector<uint32_t> prompt = {1, 300, 400};
  CHECK(session->prefill(prompt, {}).ok());
  std::vector<uint32_t> tokens;
  for (int i = 0; i < 8; ++i) tokens.push_back(*session->next());
  return tokens;
}

bool is_one_type(const Device& device) {
  return device.memory_properties().memoryTypeCount == 1;
}

} // namespace

TEST_CASE("all memory comes from the application's allocator and goes back to it") {
  Arena arena;
  DeviceOptions options;
  options.allocator = arena.functions();
  const auto device = open(options);
  arena.watch(device);
  if (!is_one_type(*device)) return skip("the arena is for devices with one type of memory");
  CHECK(tokens_on(device) == tokens_on(open({})));
  CHECK(arena.requests.size() > 5);
  CHECK(arena.ranges.empty());
  CHECK(device->allocated_bytes() == 0);
  for (const MemoryRequest& request : arena.requests) {
    CHECK(request.bytes > 0);
    CHECK((request.memory_type_bits >> request.memory_type & 1) == 1);
    CHECK(request.host_visible);
    CHECK(request.device_address == device->capabilities().uses_addresses());
  }
}

TEST_CASE("mistakes of an application's allocator are reported, and no memory is kept") {
  Arena arena;
  DeviceOptions options;
  options.allocator = arena.functions();
  options.memory_limit = uint64_t{96} << 20;
  const auto device = open(options);
  arena.watch(device);
  if (!is_one_type(*device)) return skip("the arena is for devices with one type of memory");
  const auto full = Buffer::create(device, uint64_t{65} << 20, MemoryUse::device);
  CHECK(says(full, {"the arena is full"}) == "");
  CHECK(full.error().code == Code::out_of_memory);
  const auto over = Buffer::create(device, uint64_t{100} << 20, MemoryUse::device);
  CHECK(says(over, {"limit"}) == "");
  CHECK(arena.requests.size() == 1); // it was not asked for what may not be had

  arena.shift = 1;
  CHECK(says(Buffer::create(device, 1000, MemoryUse::device), {"allocator", "multiple of", "offset"}) == "");
  arena.shift = 0;
  arena.maps = false;
  CHECK(says(Buffer::create(device, 1000, MemoryUse::upload), {"did not map"}) == "");
  const auto unmapped = Buffer::create(device, 1000, MemoryUse::device);
  REQUIRE(unmapped.ok());
  CHECK(unmapped->mapped().empty());
  CHECK(arena.ranges.size() == 1);
  CHECK(device->allocated_bytes() == unmapped->memory_bytes());
}

TEST_CASE("an allocator that returns no memory without an error is reported") {
  DeviceOptions options;
  int freed = 0;
  options.allocator.allocate = [](const MemoryRequest&) { return Result<DeviceMemory>(DeviceMemory()); };
  options.allocator.free = [&](const DeviceMemory&) { ++freed; };
  const auto device = open(options);
  CHECK(says(Buffer::create(device, 1000, MemoryUse::device), {"gave no memory"}) == "");
  CHECK(freed == 0);
  CHECK(device->allocated_bytes() == 0);
}
