#include "gpu/queue.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/device.h"

namespace pumice {

namespace {

// Semaphores side by side with their values, as VkSubmitInfo has them.
struct Semaphores {
  std::vector<VkSemaphore> handles;
  std::vector<uint64_t> values;

  explicit Semaphores(std::span<const SemaphoreValue> semaphores) {
    for (const SemaphoreValue& semaphore : semaphores) add(semaphore);
  }
  void add(const SemaphoreValue& semaphore) {
    handles.push_back(semaphore.semaphore);
    values.push_back(semaphore.value);
  }
};

} // namespace

Status Queue::open(VkQueue handle, uint32_t family, const char* name) {
  handle_ = handle;
  family_ = family;
  VkSemaphoreTypeCreateInfo timeline{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  timeline.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &timeline};
  const VkResult result =
      device_.table().vkCreateSemaphore(device_.handle(), &semaphore, nullptr, &timeline_);
  if (result != VK_SUCCESS) return vulkan_error("vkCreateSemaphore", result);
  device_.set_name(VK_OBJECT_TYPE_SEMAPHORE, timeline_, name);
  return {};
}

void Queue::close() {
  if (timeline_) device_.table().vkDestroySemaphore(device_.handle(), timeline_, nullptr);
  timeline_ = VK_NULL_HANDLE;
}

void Queue::set_external_lock(std::function<void()> lock, std::function<void()> unlock) {
  external_lock_ = std::move(lock);
  external_unlock_ = std::move(unlock);
}

void Queue::lock() {
  mutex_.lock();
  if (external_lock_) external_lock_();
}

void Queue::unlock() {
  if (external_unlock_) external_unlock_();
  mutex_.unlock();
}

void Queue::set_external_submit(std::function<Status(const Submission&)> submit) {
  external_submit_ = std::move(submit);
}

Result<TimelinePoint> Queue::submit(std::span<const VkCommandBuffer> commands, const SubmitSync& sync) {
  if (device_.hangs()) return device_.hang();
  const Semaphores wait(sync.wait);
  Semaphores signal(sync.signal);
  signal.add({timeline_, 0});
  uint64_t value = 0;
  PUMICE_CHECK(locked([&] {
    signal.values.back() = value = last_value_ + 1;
    const Submission submission{commands, wait.handles, signal.handles, wait.values, signal.values};
    Status submitted = external_submit_ ? external_submit_(submission) : submit_here(submission);
    if (submitted.ok()) last_value_ = value;
    return submitted;
  }));
  return TimelinePoint{value};
}

Status Queue::submit_here(const Submission& submission) {
  const auto count = [](const auto& all) { return static_cast<uint32_t>(all.size()); };
  const std::vector<VkPipelineStageFlags> stages(submission.wait.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  timeline.waitSemaphoreValueCount = count(submission.wait);
  timeline.pWaitSemaphoreValues = submission.wait_values.data();
  timeline.signalSemaphoreValueCount = count(submission.signal);
  timeline.pSignalSemaphoreValues = submission.signal_values.data();
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &timeline};
  info.waitSemaphoreCount = count(submission.wait);
  info.pWaitSemaphores = submission.wait.data();
  info.pWaitDstStageMask = stages.data();
  info.commandBufferCount = count(submission.commands);
  info.pCommandBuffers = submission.commands.data();
  info.signalSemaphoreCount = count(submission.signal);
  info.pSignalSemaphores = submission.signal.data();
  const VkResult result = device_.table().vkQueueSubmit(handle_, 1, &info, VK_NULL_HANDLE);
  return result == VK_SUCCESS ? Status() : vulkan_error("vkQueueSubmit", result);
}

// The application's queue is not waited for: what it has of others may depend on this thread.
VkResult Queue::wait_until_idle(TimelinePoint point) {
  const VulkanTable& vk = device_.table();
  if (!external_submit_) return locked([&] { return vk.vkQueueWaitIdle(handle_); });
  for (uint64_t value = 0;;) {
    const VkResult result = vk.vkGetSemaphoreCounterValue(device_.handle(), timeline_, &value);
    if (result != VK_SUCCESS || value >= point.value) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Status Queue::wait(TimelinePoint point) {
  const VulkanTable& vk = device_.table();
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &point.value;
  constexpr double between_looks = 1; // seconds
  using Clock = std::chrono::steady_clock;
  double still = 0; // seconds without progress
  uint64_t reached = 0;
  VkResult result = VK_TIMEOUT;
  while (result == VK_TIMEOUT && !device_.hangs()) {
    const double seconds = std::min(between_looks, device_.patience());
    const Clock::time_point begin = Clock::now();
    result = vk.vkWaitSemaphores(device_.handle(), &info, static_cast<uint64_t>(seconds * 1e9));
    if (result != VK_TIMEOUT) break;
    // A process that was stopped, or a machine that slept, was away for longer than it looked.
    still += std::min(seconds, std::chrono::duration<double>(Clock::now() - begin).count());
    uint64_t value = 0;
    (void)vk.vkGetSemaphoreCounterValue(device_.handle(), timeline_, &value);
    if (value > reached) still = 0;
    reached = std::max(reached, value);
    if (still >= device_.patience()) device_.give_up();
  }
  if (device_.hangs()) return device_.hang();
  if (result == VK_SUCCESS) return {};
  // After an error the caller destroys objects that the device may still use, so wait until the queue is
  // idle. If that succeeds (vkWaitSemaphores may only have lacked memory), nothing has failed. On a lost
  // device the call returns at once.
  const VkResult idle = wait_until_idle(point);
  if (idle == VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) return {};
  return vulkan_error("vkWaitSemaphores", result);
}

Result<TimelinePoint> Queue::completed() const {
  uint64_t value = 0;
  const VkResult result = device_.table().vkGetSemaphoreCounterValue(device_.handle(), timeline_, &value);
  if (result != VK_SUCCESS) return vulkan_error("vkGetSemaphoreCounterValue", result);
  return TimelinePoint{value};
}

} // namespace pumice
