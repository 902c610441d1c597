#include "instance.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "failure.h"

namespace npc {

namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL say(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                   const VkDebugUtilsMessengerCallbackDataEXT* data, void* messages) {
  ++*static_cast<std::atomic<int>*>(messages);
  std::fprintf(stderr, "npc_demo: validation: %s\n", data->pMessage);
  return VK_FALSE;
}

bool has_validation_layer(const VulkanFunctions& vk) {
  uint32_t count = 0;
  vk.vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vk.vkEnumerateInstanceLayerProperties(&count, layers.data());
  return std::ranges::any_of(layers, [](const VkLayerProperties& layer) {
    return std::string_view(layer.layerName) == validation_layer;
  });
}

} // namespace

Instance::Instance(PFN_vkGetInstanceProcAddr loader, const std::vector<const char*>& extensions,
                   bool validate) {
  vk_.vkGetInstanceProcAddr = loader;
#define NPC_LOAD(name) vk_.name = reinterpret_cast<PFN_##name>(loader(VK_NULL_HANDLE, #name));
  NPC_GLOBAL_FUNCTIONS(NPC_LOAD)
#undef NPC_LOAD
  if (!vk_.vkEnumerateInstanceVersion)
    throw Failure("expected a Vulkan loader of version 1.2 or later; found 1.0");

  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "npc_demo";
  application.apiVersion = VK_API_VERSION_1_2; // the lowest version that Pumice supports
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;

  std::vector<const char*> names = extensions;
  const VkValidationFeatureEnableEXT synchronisation =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT validation{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  validation.enabledValidationFeatureCount = 1;
  validation.pEnabledValidationFeatures = &synchronisation;
  if (validate) {
    if (!has_validation_layer(vk_)) throw Failure("--validate: Vulkan's validation layers are not installed");
    names.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
    names.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &validation_layer;
    info.pNext = &validation;
  }
  info.enabledExtensionCount = static_cast<uint32_t>(names.size());
  info.ppEnabledExtensionNames = names.data();
  check(vk_.vkCreateInstance(&info, nullptr, &instance_), "making a Vulkan instance");

#define NPC_LOAD(name) vk_.name = reinterpret_cast<PFN_##name>(loader(instance_, #name));
  NPC_INSTANCE_FUNCTIONS(NPC_LOAD)
  NPC_EXTENSION_FUNCTIONS(NPC_LOAD)
#undef NPC_LOAD
  if (validate) watch();
}

void Instance::watch() {
  VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType =
      VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = say;
  info.pUserData = &messages_;
  check(vk_.vkCreateDebugUtilsMessengerEXT(instance_, &info, nullptr, &messenger_),
        "listening to the validation layers");
}

Instance::~Instance() {
  if (messenger_) vk_.vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  vk_.vkDestroyInstance(instance_, nullptr);
}

} // namespace npc
