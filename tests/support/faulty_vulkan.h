#pragma once

#include <string>
#include <vector>

#include "api/pumice.h"
#include "gpu/vulkan_table.h"

// The machine's Vulkan, as a program hands it to Pumice, with every function that returns a VkResult counted,
// and one call of one of them made to fail without reaching the driver. A device that was lost stays lost.
// There is one in a process; what it hands out may be used by several threads.
class FaultyVulkan {
public:
  // Opens the machine's loader; the test fails if there is none.
  FaultyVulkan();

  // For pumice_device_options and pumice_vulkan.
  static pumice_function get_instance_proc_addr(VkInstance instance, const char* name);

  struct Function {
    std::string name;
    // What it may return, as the specification has it, in place of success. Empty: it returns no VkResult.
    std::vector<VkResult> errors;
    int calls = 0;
  };
  std::vector<Function> functions() const;

  // Counts calls from zero, and none fails.
  void count();
  // Counts calls from zero; of one function's calls, the one of this number (from zero) returns `error`.
  void fail(size_t function, int call, VkResult error);
  bool failed() const; // whether that call has come
  // The next call of a function.
  void fail_next(const std::string& function, VkResult error);
  // From here on no call is counted and none fails, but for those of lost devices.
  void rest();

  // From here on devices' own memory is none that the host can reach, so that what goes there is copied.
  void split_memory(bool split);
};
