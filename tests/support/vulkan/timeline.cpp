#include "support/vulkan/timeline.h"

#include <doctest/doctest.h>

#include "gpu/vulkan_table.h"

template <class Function>
Function Timeline::function(const char* name) const {
  return reinterpret_cast<Function>((*pumice::open_vulkan_loader())(vulkan_.instance, name));
}

Timeline::Timeline(const pumice_device* device) {
  pumice_device_vulkan(device, &vulkan_, nullptr);
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  const VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
  REQUIRE(function<PFN_vkCreateSemaphore>("vkCreateSemaphore")(vulkan_.device, &info, nullptr, &handle_) ==
          VK_SUCCESS);
}

Timeline::~Timeline() {
  function<PFN_vkDestroySemaphore>("vkDestroySemaphore")(vulkan_.device, handle_, nullptr);
}

bool Timeline::reaches(uint64_t value) const {
  VkSemaphoreWaitInfo wait{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  wait.semaphoreCount = 1;
  wait.pSemaphores = &handle_;
  wait.pValues = &value;
  return function<PFN_vkWaitSemaphores>("vkWaitSemaphores")(vulkan_.device, &wait, 10'000'000'000) ==
         VK_SUCCESS;
}

void Timeline::signal(uint64_t value) const {
  VkSemaphoreSignalInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO};
  info.semaphore = handle_;
  info.value = value;
  CHECK(function<PFN_vkSignalSemaphore>("vkSignalSemaphore")(vulkan_.device, &info) == VK_SUCCESS);
}

pumice_status Timeline::advance(pumice_session* session, float budget_us, uint64_t wait, uint64_t signal,
                                pumice_slice* slice, pumice_error* error) const {
  pumice_sync sync = {sizeof sync};
  sync.wait = sync.signal = &handle_;
  sync.wait_values = &wait;
  sync.signal_values = &signal;
  sync.wait_count = wait > 0;
  sync.signal_count = signal > 0;
  return pumice_work_advance(pumice_session_work(session), budget_us, &sync, slice, error);
}
