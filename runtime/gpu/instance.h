#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/capabilities.h"
#include "gpu/vulkan_table.h"

namespace pumice {

// Receives what the validation layers say. May be called from any thread that calls into Vulkan.
using ValidationLog = std::function<void(const std::string& message)>;

struct InstanceOptions {
  std::string loader;    // the loader library to open; empty for the usual ones
  bool validate = false; // switch the validation layers on, with synchronisation validation
  ValidationLog validation_log;
  VulkanTable table; // members that are set replace the loader's functions
};

// A Vulkan instance and the devices it found.
class Instance {
public:
  static Result<std::shared_ptr<Instance>> create(InstanceOptions options = {});
  // Uses an instance that the application owns. It lists no devices. Members of `table` that are set replace
  // the functions that `get_instance_proc_addr` finds.
  static Result<std::shared_ptr<Instance>>
  adopt(VkInstance handle, PFN_vkGetInstanceProcAddr get_instance_proc_addr, VulkanTable table = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // All devices in the loader's order; unusable ones have `problems`.
  const std::vector<Capabilities>& devices() const { return devices_; }

  // Finds the device by `name`: an index, a part of its name, or its UUID; upper and lower case are the same.
  // If `name` is empty, the best one: discrete before integrated before CPU. The error says why each device
  // was not chosen.
  Result<Capabilities> choose(const std::string& name = "") const;

  const VulkanTable& table() const { return table_; }
  VkInstance handle() const { return handle_; }

private:
  Instance() = default;
  Status enumerate_devices();

  VulkanTable table_;
  VkInstance handle_ = VK_NULL_HANDLE;
  bool owned_ = true;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  ValidationLog validation_log_;
  std::vector<Capabilities> devices_;
};

} // namespace pumice
