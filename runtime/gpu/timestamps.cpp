#include "gpu/timestamps.h"

#include <utility>

#include <fmt/format.h>

namespace pumice {

Result<Timestamps> Timestamps::create(std::shared_ptr<Device> device, uint32_t count) {
  const Capabilities& capabilities = device->capabilities();
  if (!capabilities.timestamps) {
    return Error{Code::unsupported, fmt::format("{} has no timestamps", capabilities.name)};
  }
  Timestamps timestamps;
  timestamps.device_ = std::move(device);
  timestamps.count_ = count;
  VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = count;
  const VulkanTable& vk = timestamps.device_->table();
  VkDevice handle = timestamps.device_->handle();
  if (VkResult result = vk.vkCreateQueryPool(handle, &info, nullptr, &timestamps.pool_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateQueryPool", result);
  }
  timestamps.device_->set_name(VK_OBJECT_TYPE_QUERY_POOL, timestamps.pool_, "timestamps");
  return timestamps;
}

Timestamps& Timestamps::operator=(Timestamps&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pool_, other.pool_);
  std::swap(count_, other.count_);
  return *this;
}

Timestamps::~Timestamps() {
  if (pool_) device_->table().vkDestroyQueryPool(device_->handle(), pool_, nullptr);
}

Result<std::vector<double>> Timestamps::read(uint32_t count) const {
  std::vector<uint64_t> ticks(count);
  if (VkResult result =
          device_->table().vkGetQueryPoolResults(device_->handle(), pool_, 0, count, count * sizeof(uint64_t),
                                                 ticks.data(), sizeof(uint64_t), VK_QUERY_RESULT_64_BIT);
      result == VK_NOT_READY) {
    return Error{Code::not_ready, "the device has not written its timestamps yet"};
  } else if (result != VK_SUCCESS) {
    return vulkan_error("vkGetQueryPoolResults", result);
  }
  std::vector<double> seconds;
  for (uint64_t tick : ticks) {
    seconds.push_back(static_cast<double>(tick - ticks[0]) * device_->capabilities().timestamp_period_ns *
                      1e-9);
  }
  return seconds;
}

} // namespace pumice
