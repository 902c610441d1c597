#pragma once

#include <string>
#include <vector>

#include "api/pumice.h"
#include "gpu/vulkan_table.h"

// The machine's Vulkan, as a program hands it to Pumice, with every function that returns a VkResult counted,
// and one call of one of them made to fail without reaching the driver. A device that was lost stays lost.
// There is one in a process. Several threads may use the functions that it hands out.
class FaultyVulkan {
public:
  // Opens the machine's loader; the test fails if there is none.
  FaultyVulkan();

  // For pumice_device_options and pumice_vulkan.
  static pumice_function get_instance_proc_addr(VkInstance instance, const char* name);

  struct Function {
    std::string name;
    // The errors that it may return, by the specification. Empty: it returns no VkResult.
    std::vector<VkResult> errors;
    int calls = 0;
  };
  std::vector<Function> functions() const;

  // Starts counting calls from zero. None fails.
  void count();
  // Starts counting calls from zero. The call of this number (from zero) of one function returns `error`.
  void fail(size_t function, int call, VkResult error);
  bool failed() const; // whether that call was made
  // The next call of a function.
  void fail_next(const std::string& function, VkResult error);
  // No call is counted from here on, and none fails except those on lost devices.
  void rest();

  // From here on the CPU cannot reach the devices' own memory, so that data is copied there.
  void split_memory(bool split);
  // From here on no kind of the devices' memory can be the host's (VK_EXT_external_memory_host).
  void refuse_imports(bool refuse);
};
