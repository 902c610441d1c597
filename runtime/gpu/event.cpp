#include "gpu/event.h"

#include <utility>

namespace pumice {

Result<Event> Event::create(std::shared_ptr<Device> device) {
  Event event;
  event.device_ = std::move(device);
  const VkEventCreateInfo info{VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
  const VulkanTable& vk = event.device_->table();
  if (VkResult result = vk.vkCreateEvent(event.device_->handle(), &info, nullptr, &event.handle_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateEvent", result);
  }
  event.device_->set_name(VK_OBJECT_TYPE_EVENT, event.handle_, "end of a slice");
  return event;
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  if (handle_ && !device_->hangs()) device_->table().vkDestroyEvent(device_->handle(), handle_, nullptr);
}

Result<bool> Event::is_set() const {
  const VkResult result = device_->table().vkGetEventStatus(device_->handle(), handle_);
  if (result == VK_EVENT_SET || result == VK_EVENT_RESET) return result == VK_EVENT_SET;
  return vulkan_error("vkGetEventStatus", result);
}

Status Event::reset() {
  if (VkResult result = device_->table().vkResetEvent(device_->handle(), handle_); result != VK_SUCCESS) {
    return vulkan_error("vkResetEvent", result);
  }
  return {};
}

} // namespace pumice
