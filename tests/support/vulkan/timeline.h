#pragma once

#include <vulkan/vulkan.h>

#include "api/pumice.h"

// A program's timeline semaphore on the Vulkan device that Pumice uses.
class Timeline {
public:
  explicit Timeline(const pumice_device* device);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  bool reaches(uint64_t value) const; // within ten seconds
  void signal(uint64_t value) const;
  // Has a slice wait for one value and signal another; 0: none.
  pumice_status advance(pumice_session* session, float budget_us, uint64_t wait, uint64_t signal,
                        pumice_slice* slice, pumice_error* error) const;

private:
  template <class Function>
  Function function(const char* name) const;

  pumice_vulkan vulkan_ = {sizeof(pumice_vulkan)};
  VkSemaphore handle_ = VK_NULL_HANDLE;
};
