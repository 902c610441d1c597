#include "support/vulkan/drivers.h"

namespace {

VkInstance make_instance() {
  const auto loader = pumice::open_vulkan_loader();
  if (!loader.ok()) return VK_NULL_HANDLE;
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.apiVersion = VK_API_VERSION_1_3;
  const VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, nullptr, 0, &application};
  const auto create = reinterpret_cast<PFN_vkCreateInstance>((*loader)(VK_NULL_HANDLE, "vkCreateInstance"));
  VkInstance instance = VK_NULL_HANDLE;
  return create && create(&info, nullptr, &instance) == VK_SUCCESS ? instance : VK_NULL_HANDLE;
}

} // namespace

VkInstance resident_instance() {
  static const VkInstance instance = make_instance();
  return instance;
}
