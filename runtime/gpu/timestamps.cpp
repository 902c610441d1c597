#include "gpu/timestamps.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace pumice {

std::vector<double> seconds_from_first(std::span<const uint64_t> ticks, uint32_t valid_bits,
                                       double period_ns) {
  const uint64_t valid = valid_bits < 64 ? (uint64_t{1} << valid_bits) - 1 : UINT64_MAX;
  std::vector<double> seconds;
  for (const uint64_t tick : ticks) {
    seconds.push_back(static_cast<double>((tick - ticks[0]) & valid) * period_ns * 1e-9);
  }
  return seconds;
}

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
  PUMICE_TRY(timestamps.results_,
             Buffer::create(timestamps.device_, count * sizeof(uint64_t), MemoryUse::readback, "timestamps"));
  return timestamps;
}

Result<uint64_t> Timestamps::memory_needed(const Device& device, uint32_t count) {
  if (!device.capabilities().timestamps) return uint64_t{0};
  return Buffer::memory_needed(device, count * sizeof(uint64_t));
}

Timestamps& Timestamps::operator=(Timestamps&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pool_, other.pool_);
  std::swap(results_, other.results_);
  std::swap(count_, other.count_);
  return *this;
}

Timestamps::~Timestamps() {
  if (pool_ && !device_->hangs()) device_->table().vkDestroyQueryPool(device_->handle(), pool_, nullptr);
}

void Timestamps::finish(Commands& commands, uint32_t count) {
  commands.copy_queries(pool_, count, results_);
}

std::vector<double> Timestamps::read(uint32_t count) const {
  std::vector<uint64_t> ticks(count);
  std::memcpy(ticks.data(), results_.mapped().data(), count * sizeof(uint64_t));
  const Capabilities& capabilities = device_->capabilities();
  return seconds_from_first(ticks, capabilities.timestamp_bits, capabilities.timestamp_period_ns);
}

} // namespace pumice
