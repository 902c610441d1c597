#pragma once

#include <string>
#include <vector>

#include "gpu/vulkan_table.h"

// The machine's Vulkan with every function that returns a VkResult counted, and one call of one of them made
// to fail without reaching the driver. There is one at a time, used by one thread at a time.
class FaultyVulkan {
public:
  // Opens the machine's loader; the test fails if there is none.
  FaultyVulkan();

  // For InstanceOptions::table.
  pumice::VulkanTable table() const { return table_; }

  struct Function {
    std::string name;
    int calls = 0; // since reset()
    // What it may return, as the specification has it, in place of success.
    std::vector<VkResult> errors;
  };
  const std::vector<Function>& functions() const;

  // Counts from zero, and no call fails.
  void reset();
  // Counts from zero; of one function's calls, the one of this number (from zero) returns `error`.
  void fail(size_t function, int call, VkResult error);
  bool failed() const; // whether that call has come

private:
  pumice::VulkanTable table_;
};
