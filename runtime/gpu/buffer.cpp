#include "gpu/buffer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags host =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

// The first memory type that has all of `wanted`, in the driver's order, which is the order of preference.
int find_memory_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed,
                     VkMemoryPropertyFlags wanted) {
  for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
    if (!(allowed & (1u << i))) continue;
    if ((memory.memoryTypes[i].propertyFlags & wanted) == wanted) return static_cast<int>(i);
  }
  return -1;
}

int choose_memory_type(const Device& device, uint32_t allowed, MemoryUse use) {
  const VkPhysicalDeviceMemoryProperties& memory = device.memory_properties();
  std::array<VkMemoryPropertyFlags, 3> wishes = {};
  switch (use) {
  case MemoryUse::device:
    wishes = {device.capabilities().unified_memory ? local | host : local, local, 0};
    break;
  case MemoryUse::shared:
    wishes = {local | host, host, host};
    break;
  case MemoryUse::upload:
    wishes = {host, host, host};
    break;
  }
  for (VkMemoryPropertyFlags wish : wishes) {
    if (int type = find_memory_type(memory, allowed, wish); type >= 0) return type;
  }
  return -1;
}

} // namespace

Result<Buffer> Buffer::create(std::shared_ptr<Device> device, uint64_t bytes, MemoryUse use) {
  const Capabilities& capabilities = device->capabilities();
  if (bytes > capabilities.max_allocation_bytes) {
    return Error{Code::out_of_memory,
                 fmt::format("a buffer of {} bytes is over the device's limit of {} bytes", bytes,
                             capabilities.max_allocation_bytes)};
  }
  Buffer buffer;
  buffer.device_ = std::move(device);
  buffer.size_ = std::max<uint64_t>(bytes, 16);

  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = allocated_bytes(buffer.size_);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (capabilities.buffer_device_address) info.usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  const VulkanTable& vk = buffer.device_->table();
  VkDevice handle = buffer.device_->handle();
  if (VkResult result = vk.vkCreateBuffer(handle, &info, nullptr, &buffer.handle_); result != VK_SUCCESS) {
    return vulkan_error("vkCreateBuffer", result);
  }
  PUMICE_CHECK(buffer.allocate(use));
  if (capabilities.buffer_device_address) {
    VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    address.buffer = buffer.handle_;
    buffer.address_ = vk.vkGetBufferDeviceAddress(handle, &address);
  }
  return buffer;
}

Status Buffer::allocate(MemoryUse use) {
  const VulkanTable& vk = device_->table();
  VkMemoryRequirements requirements;
  vk.vkGetBufferMemoryRequirements(device_->handle(), handle_, &requirements);
  const int type = choose_memory_type(*device_, requirements.memoryTypeBits, use);
  if (type < 0) return Error{Code::unsupported, "the device has no memory of the kind a buffer needs"};

  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                            device_->capabilities().buffer_device_address ? &flags : nullptr};
  info.allocationSize = requirements.size;
  info.memoryTypeIndex = static_cast<uint32_t>(type);
  if (VkResult result = vk.vkAllocateMemory(device_->handle(), &info, nullptr, &memory_);
      result != VK_SUCCESS) {
    Error error = vulkan_error("vkAllocateMemory", result);
    error.message += fmt::format(" for {} bytes on {}", requirements.size, device_->capabilities().name);
    return error;
  }
  memory_bytes_ = requirements.size;
  device_->count_allocation(memory_bytes_);
  if (VkResult result = vk.vkBindBufferMemory(device_->handle(), handle_, memory_, 0); result != VK_SUCCESS) {
    return vulkan_error("vkBindBufferMemory", result);
  }
  const VkMemoryPropertyFlags properties = device_->memory_properties().memoryTypes[type].propertyFlags;
  if ((properties & host) == host) {
    void* pointer = nullptr;
    if (VkResult result = vk.vkMapMemory(device_->handle(), memory_, 0, VK_WHOLE_SIZE, 0, &pointer);
        result != VK_SUCCESS) {
      return vulkan_error("vkMapMemory", result);
    }
    mapped_ = static_cast<std::byte*>(pointer);
  }
  return {};
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  device_ = std::move(other.device_);
  handle_ = std::exchange(other.handle_, VK_NULL_HANDLE);
  memory_ = std::exchange(other.memory_, VK_NULL_HANDLE);
  size_ = std::exchange(other.size_, 0);
  memory_bytes_ = std::exchange(other.memory_bytes_, 0);
  address_ = std::exchange(other.address_, 0);
  mapped_ = std::exchange(other.mapped_, nullptr);
  return *this;
}

void Buffer::release() {
  if (!device_) return;
  const VulkanTable& vk = device_->table();
  if (handle_) vk.vkDestroyBuffer(device_->handle(), handle_, nullptr);
  if (memory_) {
    vk.vkFreeMemory(device_->handle(), memory_, nullptr);
    device_->count_release(memory_bytes_);
  }
  handle_ = VK_NULL_HANDLE;
  memory_ = VK_NULL_HANDLE;
  mapped_ = nullptr;
  device_.reset();
}

} // namespace pumice
