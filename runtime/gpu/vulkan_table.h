#pragma once

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan.h>

#include "base/result.h"
#include "gpu/cooperative_matrix.h"

namespace pumice {

// Every Vulkan function the runtime calls. A function that is missing here cannot be called, so this list is
// also the list of what a replacement (an application's own loader, a test that injects faults) has to
// provide.
#define PUMICE_VULKAN_GLOBAL(F)                                                                              \
  F(vkCreateInstance)                                                                                        \
  F(vkEnumerateInstanceVersion)                                                                              \
  F(vkEnumerateInstanceLayerProperties)                                                                      \
  F(vkEnumerateInstanceExtensionProperties)

#define PUMICE_VULKAN_INSTANCE(F)                                                                            \
  F(vkDestroyInstance)                                                                                       \
  F(vkEnumeratePhysicalDevices)                                                                              \
  F(vkGetPhysicalDeviceProperties)                                                                           \
  F(vkGetPhysicalDeviceProperties2)                                                                          \
  F(vkGetPhysicalDeviceFeatures2)                                                                            \
  F(vkGetPhysicalDeviceMemoryProperties2)                                                                    \
  F(vkGetPhysicalDeviceQueueFamilyProperties)                                                                \
  F(vkEnumerateDeviceExtensionProperties)                                                                    \
  F(vkCreateDevice)                                                                                          \
  F(vkGetDeviceProcAddr)

#define PUMICE_VULKAN_INSTANCE_OPTIONAL(F)                                                                   \
  F(vkCreateDebugUtilsMessengerEXT)                                                                          \
  F(vkDestroyDebugUtilsMessengerEXT)                                                                         \
  F(vkSetDebugUtilsObjectNameEXT)                                                                            \
  F(vkGetPhysicalDeviceExternalBufferProperties)                                                             \
  F(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)                                                       \
  F(vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV)

#define PUMICE_VULKAN_DEVICE(F)                                                                              \
  F(vkDestroyDevice)                                                                                         \
  F(vkGetDeviceQueue)                                                                                        \
  F(vkDeviceWaitIdle)                                                                                        \
  F(vkQueueSubmit)                                                                                           \
  F(vkQueueWaitIdle)                                                                                         \
  F(vkAllocateMemory)                                                                                        \
  F(vkFreeMemory)                                                                                            \
  F(vkMapMemory)                                                                                             \
  F(vkUnmapMemory)                                                                                           \
  F(vkCreateBuffer)                                                                                          \
  F(vkDestroyBuffer)                                                                                         \
  F(vkCreateBufferView)                                                                                      \
  F(vkDestroyBufferView)                                                                                     \
  F(vkGetBufferMemoryRequirements)                                                                           \
  F(vkBindBufferMemory)                                                                                      \
  F(vkCreateSemaphore)                                                                                       \
  F(vkDestroySemaphore)                                                                                      \
  F(vkCreateShaderModule)                                                                                    \
  F(vkDestroyShaderModule)                                                                                   \
  F(vkCreateDescriptorSetLayout)                                                                             \
  F(vkDestroyDescriptorSetLayout)                                                                            \
  F(vkCreateDescriptorPool)                                                                                  \
  F(vkDestroyDescriptorPool)                                                                                 \
  F(vkAllocateDescriptorSets)                                                                                \
  F(vkUpdateDescriptorSets)                                                                                  \
  F(vkCmdBindDescriptorSets)                                                                                 \
  F(vkCreatePipelineLayout)                                                                                  \
  F(vkDestroyPipelineLayout)                                                                                 \
  F(vkCreateComputePipelines)                                                                                \
  F(vkDestroyPipeline)                                                                                       \
  F(vkCreatePipelineCache)                                                                                   \
  F(vkDestroyPipelineCache)                                                                                  \
  F(vkGetPipelineCacheData)                                                                                  \
  F(vkCreateCommandPool)                                                                                     \
  F(vkDestroyCommandPool)                                                                                    \
  F(vkAllocateCommandBuffers)                                                                                \
  F(vkFreeCommandBuffers)                                                                                    \
  F(vkBeginCommandBuffer)                                                                                    \
  F(vkEndCommandBuffer)                                                                                      \
  F(vkCmdBindPipeline)                                                                                       \
  F(vkCmdPushConstants)                                                                                      \
  F(vkCmdDispatch)                                                                                           \
  F(vkCmdDispatchBase)                                                                                       \
  F(vkCmdPipelineBarrier)                                                                                    \
  F(vkCmdCopyBuffer)                                                                                         \
  F(vkCmdCopyImageToBuffer)                                                                                  \
  F(vkCmdFillBuffer)                                                                                         \
  F(vkResetCommandPool)                                                                                      \
  F(vkCreateEvent)                                                                                           \
  F(vkDestroyEvent)                                                                                          \
  F(vkGetEventStatus)                                                                                        \
  F(vkResetEvent)                                                                                            \
  F(vkCmdSetEvent)                                                                                           \
  F(vkCreateQueryPool)                                                                                       \
  F(vkDestroyQueryPool)                                                                                      \
  F(vkCmdResetQueryPool)                                                                                     \
  F(vkCmdWriteTimestamp)                                                                                     \
  F(vkCmdCopyQueryPoolResults)

// Under an instance of Vulkan 1.1 they have the name that their extension gave them.
#define PUMICE_VULKAN_DEVICE_12(F)                                                                           \
  F(vkWaitSemaphores)                                                                                        \
  F(vkGetSemaphoreCounterValue)

#define PUMICE_VULKAN_DEVICE_12_OPTIONAL(F) F(vkGetBufferDeviceAddress)
#define PUMICE_VULKAN_DEVICE_OPTIONAL(F) F(vkGetMemoryHostPointerPropertiesEXT)

// The one way from the runtime into Vulkan. Members carry the functions' own names, so a call reads
// `vk.vkQueueSubmit(...)`; any of them may be replaced before an Instance or Device is made from the table.
struct VulkanTable {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define PUMICE_MEMBER(name) PFN_##name name = nullptr;
  PUMICE_VULKAN_GLOBAL(PUMICE_MEMBER)
  PUMICE_VULKAN_INSTANCE(PUMICE_MEMBER)
  PUMICE_VULKAN_INSTANCE_OPTIONAL(PUMICE_MEMBER)
  PUMICE_VULKAN_DEVICE(PUMICE_MEMBER)
  PUMICE_VULKAN_DEVICE_12(PUMICE_MEMBER)
  PUMICE_VULKAN_DEVICE_12_OPTIONAL(PUMICE_MEMBER)
  PUMICE_VULKAN_DEVICE_OPTIONAL(PUMICE_MEMBER)
#undef PUMICE_MEMBER

  // Each fills the members of its level that are still null; a function that is missing is named in the
  // error.
  Status load_global(PFN_vkGetInstanceProcAddr get_instance_proc_addr);
  Status load_instance(VkInstance instance);
  Status load_device(VkDevice device);
};

// Opens the machine's Vulkan loader. The library stays open for the life of the process: drivers keep threads
// and thread-local state that do not survive being unloaded. `library` names another file than the usual
// ones.
Result<PFN_vkGetInstanceProcAddr> open_vulkan_loader(const std::string& library = "");

// An Error for a failed Vulkan call: "vkAllocateMemory: out of device memory
// (VK_ERROR_OUT_OF_DEVICE_MEMORY)".
Error vulkan_error(const char* call, VkResult result);

} // namespace pumice
