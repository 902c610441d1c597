#pragma once

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "support/vulkan/device_profiles.h"

// What the parts of LimitedVulkan share: what was made with it, and how a mistake is noted.
namespace limited {

struct MemoryState {
  uint64_t bytes = 0;
  uint32_t type = 0;
};
struct BufferState {
  uint64_t bytes = 0;
  VkBufferUsageFlags usage = 0;
  std::vector<uint32_t> families; // of the queues that may use it; empty: the first one that does
  bool bound = false;
};
// A queue as the program sees it: the machine may have fewer.
struct QueueState {
  uint32_t family = 0;
  VkQueue real = VK_NULL_HANDLE;
  uint64_t submissions = 0;
};
struct CommandState {
  VkCommandPool pool = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkDescriptorSet set = VK_NULL_HANDLE;
};

struct State {
  ReportedDevice device;
  bool machine = false;
  pumice::VulkanTable real;
  std::set<std::string> real_extensions;
  uint32_t real_family = 0;
  uint32_t real_type = 0; // of memory, which the host can map

  std::mutex mutex; // guards all members below
  std::vector<std::string> violations;
  ReportedFeatures enabled;
  std::set<std::pair<uint32_t, uint32_t>> queues;                   // family and index
  std::map<std::pair<uint32_t, uint32_t>, QueueState> given_queues; // stay where they are: they are handles
  std::vector<uint64_t> used;                                       // bytes of each heap
  std::map<VkDeviceMemory, MemoryState> memories;
  std::map<VkBuffer, BufferState> buffers;
  std::map<VkShaderModule, std::vector<uint32_t>> modules;
  std::map<VkDescriptorSetLayout, uint32_t> set_layouts; // storage buffers
  struct LayoutState {
    uint32_t push_constant_bytes = 0, storage_buffers = 0;
  };
  std::map<VkPipelineLayout, LayoutState> layouts;
  std::map<VkPipeline, bool> pipelines; // whether they can begin at any workgroup
  std::map<VkCommandPool, uint32_t> pool_families;
  std::map<VkCommandBuffer, CommandState> commands;
};
inline State* state = nullptr;

// To be called with the mutex held.
template <class... Arguments>
void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  constexpr size_t most = 20;
  const std::string sentence = fmt::format(text, std::forward<Arguments>(arguments)...);
  if (state->violations.size() >= most) return;
  if (std::ranges::find(state->violations, sentence) == state->violations.end())
    state->violations.push_back(sentence);
}
inline void violate_all(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) violate("{}", sentence);
}

template <class Number>
void at_most(const char* call, Number value, Number most, const char* what) {
  if (value > most) violate("{}: {} {}; {} has {}", call, value, what, state->device.name, most);
}

template <class Type>
PFN_vkVoidFunction typed(Type function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}
// An entry for a function of exactly the type that its name says.
#define LIMITED(name, function)                                                                              \
  { #name, limited::typed < PFN_##name>(function) }

// Descriptors, shaders and commands.
std::map<std::string_view, PFN_vkVoidFunction> work_functions();

} // namespace limited
