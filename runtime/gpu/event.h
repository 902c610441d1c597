#pragma once

#include <memory>

#include "gpu/device.h"

namespace pumice {

// An event that the device sets when it reaches a place in a command buffer. The host can test it, also where
// the application submitted the command buffer. Move-only.
class Event {
public:
  static Result<Event> create(std::shared_ptr<Device> device);
  Event() = default;
  Event(Event&& other) noexcept { *this = std::move(other); }
  Event& operator=(Event&& other) noexcept;
  ~Event();

  VkEvent handle() const { return handle_; }
  Result<bool> is_set() const;
  Status reset();

private:
  std::shared_ptr<Device> device_;
  VkEvent handle_ = VK_NULL_HANDLE;
};

} // namespace pumice
