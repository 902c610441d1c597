#pragma once

#include <vulkan/vulkan.h>

namespace npc {

// The functions of Vulkan that the demo calls. The demo is not linked with a Vulkan loader: SDL opens one for
// a window; without a window, the demo opens it. Pumice uses the same loader.
#define NPC_GLOBAL_FUNCTIONS(X)                                                                              \
  X(vkCreateInstance)                                                                                        \
  X(vkEnumerateInstanceExtensionProperties)                                                                  \
  X(vkEnumerateInstanceLayerProperties)                                                                      \
  X(vkEnumerateInstanceVersion)

#define NPC_INSTANCE_FUNCTIONS(X)                                                                            \
  X(vkCreateDevice)                                                                                          \
  X(vkDestroyInstance)                                                                                       \
  X(vkEnumerateDeviceExtensionProperties)                                                                    \
  X(vkEnumeratePhysicalDevices)                                                                              \
  X(vkGetDeviceProcAddr)                                                                                     \
  X(vkGetPhysicalDeviceFeatures2)                                                                            \
  X(vkGetPhysicalDeviceMemoryProperties)                                                                     \
  X(vkGetPhysicalDeviceProperties)                                                                           \
  X(vkGetPhysicalDeviceQueueFamilyProperties)

// Null unless the instance has their extensions.
#define NPC_EXTENSION_FUNCTIONS(X)                                                                           \
  X(vkCreateDebugUtilsMessengerEXT)                                                                          \
  X(vkDestroyDebugUtilsMessengerEXT)                                                                         \
  X(vkDestroySurfaceKHR)                                                                                     \
  X(vkGetPhysicalDeviceSurfaceCapabilitiesKHR)                                                               \
  X(vkGetPhysicalDeviceSurfaceFormatsKHR)                                                                    \
  X(vkGetPhysicalDeviceSurfaceSupportKHR)

#define NPC_DEVICE_FUNCTIONS(X)                                                                              \
  X(vkAllocateCommandBuffers)                                                                                \
  X(vkAllocateDescriptorSets)                                                                                \
  X(vkAllocateMemory)                                                                                        \
  X(vkBeginCommandBuffer)                                                                                    \
  X(vkBindBufferMemory)                                                                                      \
  X(vkBindImageMemory)                                                                                       \
  X(vkCmdBeginRenderPass)                                                                                    \
  X(vkCmdBindDescriptorSets)                                                                                 \
  X(vkCmdBindPipeline)                                                                                       \
  X(vkCmdBindVertexBuffers)                                                                                  \
  X(vkCmdBlitImage)                                                                                          \
  X(vkCmdCopyBufferToImage)                                                                                  \
  X(vkCmdCopyImageToBuffer)                                                                                  \
  X(vkCmdDispatch)                                                                                           \
  X(vkCmdDraw)                                                                                               \
  X(vkCmdEndRenderPass)                                                                                      \
  X(vkCmdPipelineBarrier)                                                                                    \
  X(vkCmdPushConstants)                                                                                      \
  X(vkCmdResetQueryPool)                                                                                     \
  X(vkCmdSetScissor)                                                                                         \
  X(vkCmdSetViewport)                                                                                        \
  X(vkCmdWriteTimestamp)                                                                                     \
  X(vkCreateBuffer)                                                                                          \
  X(vkCreateCommandPool)                                                                                     \
  X(vkCreateComputePipelines)                                                                                \
  X(vkCreateDescriptorPool)                                                                                  \
  X(vkCreateDescriptorSetLayout)                                                                             \
  X(vkCreateFence)                                                                                           \
  X(vkCreateFramebuffer)                                                                                     \
  X(vkCreateGraphicsPipelines)                                                                               \
  X(vkCreateImage)                                                                                           \
  X(vkCreateImageView)                                                                                       \
  X(vkCreatePipelineLayout)                                                                                  \
  X(vkCreateQueryPool)                                                                                       \
  X(vkCreateRenderPass)                                                                                      \
  X(vkCreateSampler)                                                                                         \
  X(vkCreateSemaphore)                                                                                       \
  X(vkCreateShaderModule)                                                                                    \
  X(vkDestroyBuffer)                                                                                         \
  X(vkDestroyCommandPool)                                                                                    \
  X(vkDestroyDescriptorPool)                                                                                 \
  X(vkDestroyDescriptorSetLayout)                                                                            \
  X(vkDestroyDevice)                                                                                         \
  X(vkDestroyFence)                                                                                          \
  X(vkDestroyFramebuffer)                                                                                    \
  X(vkDestroyImage)                                                                                          \
  X(vkDestroyImageView)                                                                                      \
  X(vkDestroyPipeline)                                                                                       \
  X(vkDestroyPipelineLayout)                                                                                 \
  X(vkDestroyQueryPool)                                                                                      \
  X(vkDestroyRenderPass)                                                                                     \
  X(vkDestroySampler)                                                                                        \
  X(vkDestroySemaphore)                                                                                      \
  X(vkDestroyShaderModule)                                                                                   \
  X(vkDeviceWaitIdle)                                                                                        \
  X(vkEndCommandBuffer)                                                                                      \
  X(vkFreeMemory)                                                                                            \
  X(vkGetBufferMemoryRequirements)                                                                           \
  X(vkGetDeviceQueue)                                                                                        \
  X(vkGetImageMemoryRequirements)                                                                            \
  X(vkGetQueryPoolResults)                                                                                   \
  X(vkMapMemory)                                                                                             \
  X(vkQueueSubmit)                                                                                           \
  X(vkResetFences)                                                                                           \
  X(vkUpdateDescriptorSets)                                                                                  \
  X(vkWaitForFences)

// Null unless the device was created for a window.
#define NPC_SWAPCHAIN_FUNCTIONS(X)                                                                           \
  X(vkAcquireNextImageKHR)                                                                                   \
  X(vkCreateSwapchainKHR)                                                                                    \
  X(vkDestroySwapchainKHR)                                                                                   \
  X(vkGetSwapchainImagesKHR)                                                                                 \
  X(vkQueuePresentKHR)

struct VulkanFunctions {
  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;
#define NPC_DECLARE(name) PFN_##name name = nullptr;
  NPC_GLOBAL_FUNCTIONS(NPC_DECLARE)
  NPC_INSTANCE_FUNCTIONS(NPC_DECLARE)
  NPC_EXTENSION_FUNCTIONS(NPC_DECLARE)
  NPC_DEVICE_FUNCTIONS(NPC_DECLARE)
  NPC_SWAPCHAIN_FUNCTIONS(NPC_DECLARE)
#undef NPC_DECLARE
};

} // namespace npc
