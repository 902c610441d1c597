#include "gpu/buffer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpu/buffer_usage.h"

namespace pumice {

namespace {

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags host =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
// Kinds of memory that are never used here; some of them need features that are not enabled.
constexpr VkMemoryPropertyFlags special =
    VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT | VK_MEMORY_PROPERTY_PROTECTED_BIT |
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;

constexpr uint64_t least_bytes = 16; // the size of a buffer of which 0 bytes are needed

// The first memory type that has all of `wanted`, in the driver's order, which is the order of preference.
int find_memory_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed,
                     VkMemoryPropertyFlags wanted) {
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if (!(allowed & (1u << i))) continue;
    if ((memory.memoryTypes[i].propertyFlags & wanted) == wanted) return static_cast<int>(i);
  }
  return -1;
}

uint32_t types_with(const VkPhysicalDeviceMemoryProperties& memory, VkMemoryPropertyFlags flag) {
  uint32_t types = 0;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if (memory.memoryTypes[i].propertyFlags & flag) types |= 1u << i;
  }
  return types;
}

// A kind of memory that serves a buffer.
struct MemoryChoice {
  uint32_t type_bits = 0;
  int type = -1;
};

// The kinds of memory for a use, the best one first. The others serve when its heap is full.
std::vector<VkMemoryPropertyFlags> preferences(const Device& device, MemoryUse use) {
  switch (use) {
  case MemoryUse::device:
    return {device.capabilities().unified_memory ? local | host : local, local};
  case MemoryUse::shared:
    return {local | host, host};
  case MemoryUse::upload:
    return {host};
  case MemoryUse::readback:
    return {host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, host};
  case MemoryUse::host:
    return {host};
  }
  return {};
}

std::optional<MemoryChoice> choose_memory(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed,
                                          VkMemoryPropertyFlags preferred) {
  MemoryChoice choice;
  choice.type = find_memory_type(memory, allowed, preferred);
  if (choice.type < 0) return std::nullopt;
  const VkMemoryPropertyFlags flags = memory.memoryTypes[choice.type].propertyFlags;
  // If the host maps this type, it must be able to map all other types of the choice.
  const VkMemoryPropertyFlags needed = (flags & host) == host ? preferred | host : preferred;
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags other = memory.memoryTypes[i].propertyFlags;
    if ((allowed & 1u << i) && (other & needed) == needed && !(other & special & ~flags)) {
      choice.type_bits |= 1u << i;
    }
  }
  return choice;
}

// The memory that a buffer may have, the best one first.
std::vector<MemoryChoice> memory_choices(const Device& device, uint32_t allowed, MemoryUse use) {
  const VkPhysicalDeviceMemoryProperties& memory = device.memory_properties();
  if (use == MemoryUse::host) {
    const uint32_t not_local = allowed & ~types_with(memory, local);
    if (not_local) allowed = not_local; // with unified memory all is the device's
  }
  std::vector<MemoryChoice> choices;
  uint32_t heaps = 0; // another type of a full heap is full as well
  for (VkMemoryPropertyFlags preferred : preferences(device, use)) {
    const std::optional<MemoryChoice> choice = choose_memory(memory, allowed, preferred);
    if (!choice) continue;
    const uint32_t heap = 1u << memory.memoryTypes[choice->type].heapIndex;
    if (!(heaps & heap)) choices.push_back(*choice);
    heaps |= heap;
  }
  // A device without memory of its own. Kernels would crawl in the host's memory, so it is no second choice.
  if (choices.empty() && use == MemoryUse::device) {
    if (const auto any = choose_memory(memory, allowed, 0)) choices.push_back(*any);
  }
  return choices;
}

bool is_mappable(const Device& device, int type) {
  return (device.memory_properties().memoryTypes[type].propertyFlags & host) == host;
}

bool is_cached(const Device& device, int type) {
  return device.memory_properties().memoryTypes[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
}

} // namespace

Result<VkBuffer> Buffer::make_handle(const Device& device, uint64_t bytes, const void* next) {
  const Capabilities& capabilities = device.capabilities();
  if (bytes > capabilities.max_allocation_bytes) {
    return Error{Code::out_of_memory,
                 fmt::format("a buffer of {} bytes is over the device's limit of {} bytes", bytes,
                             capabilities.max_allocation_bytes)};
  }
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, next};
  info.size = allocated_bytes(std::max(bytes, least_bytes));
  info.usage = buffer_usage(capabilities);
  // Buffers are not compressed, so that it costs nothing that both queues may use them at any time.
  const std::array<uint32_t, 2> families = {static_cast<uint32_t>(capabilities.compute_queue_family),
                                            static_cast<uint32_t>(capabilities.copy_queue_family)};
  if (capabilities.copy_queue_family >= 0) {
    info.sharingMode = VK_SHARING_MODE_CONCURRENT;
    info.queueFamilyIndexCount = 2;
    info.pQueueFamilyIndices = families.data();
  }
  VkBuffer handle = VK_NULL_HANDLE;
  if (VkResult result = device.table().vkCreateBuffer(device.handle(), &info, nullptr, &handle);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateBuffer", result);
  }
  return handle;
}

Result<VkMemoryRequirements> Buffer::requirements(const Device& device, uint64_t bytes) {
  PUMICE_TRY(const VkBuffer handle, make_handle(device, bytes));
  VkMemoryRequirements requirements;
  device.table().vkGetBufferMemoryRequirements(device.handle(), handle, &requirements);
  device.table().vkDestroyBuffer(device.handle(), handle, nullptr);
  return requirements;
}

Result<uint64_t> Buffer::memory_needed(const Device& device, uint64_t bytes) {
  PUMICE_TRY(const VkMemoryRequirements found, requirements(device, bytes));
  return found.size;
}

Result<bool> Buffer::will_be_mapped(const Device& device, MemoryUse use) {
  PUMICE_TRY(const VkMemoryRequirements found, requirements(device, least_bytes));
  const std::vector<MemoryChoice> choices = memory_choices(device, found.memoryTypeBits, use);
  return device.can_map() && !choices.empty() && is_mappable(device, choices[0].type);
}

Result<Buffer> Buffer::create(std::shared_ptr<Device> device, uint64_t bytes, MemoryUse use,
                              const char* name) {
  Buffer buffer;
  buffer.size_ = std::max(bytes, least_bytes);
  PUMICE_TRY(buffer.handle_, make_handle(*device, bytes));
  buffer.device_ = std::move(device);
  buffer.device_->set_name(VK_OBJECT_TYPE_BUFFER, buffer.handle_, name);
  PUMICE_CHECK(buffer.allocate(use));
  if (!buffer.device_->has_allocator()) {
    buffer.device_->set_name(VK_OBJECT_TYPE_DEVICE_MEMORY, buffer.memory_.memory, name);
  }
  buffer.read_address();
  return buffer;
}

Result<Buffer> Buffer::import(std::shared_ptr<Device> device, std::shared_ptr<HostMemory> memory,
                              const char* name) {
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  Buffer buffer;
  buffer.size_ = memory->buffer_bytes();
  buffer.counted_ = false;
  PUMICE_TRY(buffer.handle_, make_handle(*device, buffer.size_, &external));
  buffer.device_ = std::move(device);
  buffer.imported_ = std::move(memory);
  buffer.device_->set_name(VK_OBJECT_TYPE_BUFFER, buffer.handle_, name);
  PUMICE_CHECK(buffer.allocate_imported());
  buffer.read_address();
  return buffer;
}

void Buffer::read_address() {
  if (!device_->capabilities().uses_addresses()) return;
  VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  address.buffer = handle_;
  address_ = device_->table().vkGetBufferDeviceAddress(device_->handle(), &address);
}

Status Buffer::allocate_imported() {
  const VulkanTable& vk = device_->table();
  constexpr auto kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  const std::span<std::byte> bytes = imported_->bytes();
  VkMemoryHostPointerPropertiesEXT pointer{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  if (VkResult result =
          vk.vkGetMemoryHostPointerPropertiesEXT(device_->handle(), kind, bytes.data(), &pointer);
      result != VK_SUCCESS) {
    return vulkan_error("vkGetMemoryHostPointerPropertiesEXT", result);
  }
  VkMemoryRequirements requirements;
  vk.vkGetBufferMemoryRequirements(device_->handle(), handle_, &requirements);
  const uint32_t allowed = pointer.memoryTypeBits & requirements.memoryTypeBits;
  const std::optional<MemoryChoice> choice = choose_memory(device_->memory_properties(), allowed, host);
  if (!choice || requirements.size > bytes.size()) {
    return Error{Code::unsupported, "the device has no memory of the kind that host memory is for a buffer"};
  }
  PUMICE_TRY(memory_, device_->import(bytes, static_cast<uint32_t>(choice->type)));
  memory_bytes_ = bytes.size();
  mapped_ = bytes.data();
  cached_ = true;
  if (VkResult result = vk.vkBindBufferMemory(device_->handle(), handle_, memory_.memory, 0);
      result != VK_SUCCESS) {
    return vulkan_error("vkBindBufferMemory", result);
  }
  return {};
}

Status Buffer::allocate(MemoryUse use) {
  const VulkanTable& vk = device_->table();
  VkMemoryRequirements requirements;
  vk.vkGetBufferMemoryRequirements(device_->handle(), handle_, &requirements);
  const std::vector<MemoryChoice> choices = memory_choices(*device_, requirements.memoryTypeBits, use);
  if (choices.empty()) {
    return Error{Code::unsupported, "the device has no memory of the kind a buffer needs"};
  }
  MemoryRequest request;
  request.bytes = requirements.size;
  request.alignment = requirements.alignment;
  request.device_address = device_->capabilities().uses_addresses();
  request.counted = counted_ = use != MemoryUse::host;
  std::optional<Error> full; // what the best kind answered
  for (const MemoryChoice& choice : choices) {
    request.memory_type_bits = choice.type_bits;
    request.memory_type = static_cast<uint32_t>(choice.type);
    request.host_visible = is_mappable(*device_, choice.type);
    const Result<DeviceMemory> memory = device_->allocate(request);
    if (memory.ok()) {
      memory_ = *memory;
      cached_ = is_cached(*device_, choice.type);
      break;
    }
    if (!full) full = memory.error();
    if (memory.error().code != Code::out_of_memory) break;
  }
  if (!memory_.memory) return *full;
  memory_bytes_ = request.bytes;
  if (VkResult result = vk.vkBindBufferMemory(device_->handle(), handle_, memory_.memory, memory_.offset);
      result != VK_SUCCESS) {
    return vulkan_error("vkBindBufferMemory", result);
  }
  if (!request.host_visible) return {};
  PUMICE_TRY(mapped_, device_->map(memory_));
  if (!mapped_ && use != MemoryUse::device) {
    return Error{Code::unsupported,
                 "the application's allocator did not map memory that the host has to write"};
  }
  return {};
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  device_ = std::move(other.device_);
  handle_ = std::exchange(other.handle_, VK_NULL_HANDLE);
  memory_ = std::exchange(other.memory_, {});
  size_ = std::exchange(other.size_, 0);
  memory_bytes_ = std::exchange(other.memory_bytes_, 0);
  address_ = std::exchange(other.address_, 0);
  mapped_ = std::exchange(other.mapped_, nullptr);
  cached_ = other.cached_;
  counted_ = other.counted_;
  imported_ = std::move(other.imported_);
  return *this;
}

void Buffer::release() {
  if (!device_) return;
  const VulkanTable& vk = device_->table();
  if (handle_ && !device_->hangs()) vk.vkDestroyBuffer(device_->handle(), handle_, nullptr);
  if (memory_.memory) device_->free(memory_, counted_ ? memory_bytes_ : 0);
  handle_ = VK_NULL_HANDLE;
  memory_ = {};
  mapped_ = nullptr;
  imported_.reset();
  device_.reset();
}

} // namespace pumice
