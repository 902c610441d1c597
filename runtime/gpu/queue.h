#pragma once

#include <atomic>
#include <compare>
#include <functional>
#include <mutex>
#include <span>

#include "base/result.h"
#include "gpu/vulkan_table.h"

namespace pumice {

class Device;

// A semaphore with the value that a submission waits for or signals; 0 for a binary one.
struct SemaphoreValue {
  VkSemaphore semaphore = VK_NULL_HANDLE;
  uint64_t value = 0;
};

// What a submission waits for and signals, besides the queue's timeline.
struct SubmitSync {
  std::span<const SemaphoreValue> wait;
  std::span<const SemaphoreValue> signal;

  bool empty() const { return wait.empty() && signal.empty(); }
};

// What is submitted to a queue.
struct Submission {
  std::span<const VkCommandBuffer> commands;
  std::span<const VkSemaphore> wait, signal;
  std::span<const uint64_t> wait_values, signal_values; // 0 for a binary semaphore
};

// A point on a queue's timeline, which one submission reaches when it has finished. Points are reached in
// their order. The first one, 0, has always been reached.
struct TimelinePoint {
  uint64_t value = 0;

  auto operator<=>(const TimelinePoint&) const = default;
};

// A queue of a device, with a timeline that counts its submissions. Safe to use from several threads.
class Queue {
public:
  explicit Queue(Device& device) : device_(device) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  // The device closes its queues before it is destroyed; nothing may be running then.
  Status open(VkQueue handle, uint32_t family, const char* name);
  void close();
  // The application's lock of a queue that it owns.
  void set_external_lock(std::function<void()> lock, std::function<void()> unlock);
  // The application submits itself, to a queue that need not be known.
  void set_external_submit(std::function<Status(const Submission&)> submit);

  bool is_open() const { return timeline_ != VK_NULL_HANDLE; }
  VkQueue handle() const { return handle_; } // null if the application submits
  uint32_t family() const { return family_; }
  // To be held during every use of the queue that does not go through submit().
  void lock();
  void unlock();

  // Submits command buffers (or none) in order, after all earlier submissions. Returns the point that is
  // reached when they have finished.
  Result<TimelinePoint> submit(std::span<const VkCommandBuffer> commands, const SubmitSync& sync = {});
  // Waits until the timeline has reached the point. After an error the queue is idle too, unless the device
  // hangs: the objects that it used may be destroyed.
  Status wait(TimelinePoint point);
  // Waits for all that was submitted.
  Status wait() { return last_value_ > 0 ? wait({last_value_}) : Status(); }
  // The last point that has been reached so far.
  Result<TimelinePoint> completed() const;
  // What a submission to another queue of the device waits for.
  SemaphoreValue at(TimelinePoint point) const { return {timeline_, point.value}; }

private:
  Status submit_here(const Submission& submission);
  VkResult wait_until_idle(TimelinePoint point);
  // Makes a call that uses the queue, while no other thread uses it.
  template <class Call>
  auto locked(const Call& call) {
    lock();
    auto result = call();
    unlock();
    return result;
  }

  Device& device_;
  VkQueue handle_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  std::function<void()> external_lock_, external_unlock_;    // empty where the queue is our own
  std::function<Status(const Submission&)> external_submit_; // empty: submitted here
  std::mutex mutex_;
  std::atomic<uint64_t> last_value_ = 0;
};

} // namespace pumice
