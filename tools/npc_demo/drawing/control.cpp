#include "drawing/control.h"

#include <algorithm>
#include <array>

#include "control.comp.h"
#include "failure.h"

namespace npc {

namespace {

constexpr uint32_t groups = 64;
constexpr double enough_us = 500;         // to measure
constexpr uint32_t most_rounds = 1 << 24; // of a device whose clock stands still

// Everything before it finishes before anything after it begins.
void separate(const VulkanFunctions& vk, VkCommandBuffer commands) {
  constexpr VkPipelineStageFlags all = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  vk.vkCmdPipelineBarrier(commands, all, all, 0, 0, nullptr, 0, nullptr, 0, nullptr);
}

} // namespace

Control::Control(const Device& device)
    : device_(device), result_(device, sizeof(float), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
      input_(device, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, VK_SHADER_STAGE_COMPUTE_BIT,
             {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint32_t)}) {
  if (device.tick_us() == 0) throw Failure("--control: this device has no timestamps");
  input_.set(VkDescriptorBufferInfo{result_.handle(), 0, VK_WHOLE_SIZE});
  make_pipeline();
  VkQueryPoolCreateInfo stamps{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
  stamps.queryType = VK_QUERY_TYPE_TIMESTAMP;
  stamps.queryCount = 2;
  check(device.functions().vkCreateQueryPool(device.handle(), &stamps, nullptr, &stamps_),
        "making a query pool");
  uint32_t rounds = 64;
  measured_us(rounds); // the driver may compile now
  while (measured_us(rounds) < enough_us && rounds < most_rounds) rounds *= 2;
  double us = measured_us(rounds);
  for (int i = 0; i < 20; ++i) us = std::min(us, measured_us(rounds));
  rounds_per_us_ = rounds / std::max(us, 1.0);
}

Control::~Control() {
  const VulkanFunctions& vk = device_.functions();
  vk.vkDestroyQueryPool(device_.handle(), stamps_, nullptr);
  vk.vkDestroyPipeline(device_.handle(), pipeline_, nullptr);
}

void Control::make_pipeline() {
  const VulkanFunctions& vk = device_.functions();
  const VkShaderModule module = make_module(device_, control_comp);
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = shader_stage(VK_SHADER_STAGE_COMPUTE_BIT, module);
  info.layout = input_.layout();
  const VkResult made =
      vk.vkCreateComputePipelines(device_.handle(), VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_);
  vk.vkDestroyShaderModule(device_.handle(), module, nullptr);
  check(made, "making the control's pipeline");
}

void Control::record(VkCommandBuffer commands, double us) const {
  record_rounds(commands, static_cast<uint32_t>(us * rounds_per_us_));
}

void Control::record_rounds(VkCommandBuffer commands, uint32_t rounds) const {
  const VulkanFunctions& vk = device_.functions();
  separate(vk, commands);
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_);
  input_.bind(commands, VK_PIPELINE_BIND_POINT_COMPUTE);
  vk.vkCmdPushConstants(commands, input_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof rounds, &rounds);
  vk.vkCmdDispatch(commands, groups, 1, 1);
  separate(vk, commands);
}

double Control::measured_us(uint32_t rounds) const {
  const VulkanFunctions& vk = device_.functions();
  OneTimeCommands commands(device_);
  vk.vkCmdResetQueryPool(commands.handle(), stamps_, 0, 2);
  for (uint32_t stamp : {0u, 1u}) {
    vk.vkCmdWriteTimestamp(commands.handle(), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, stamps_, stamp);
    if (stamp == 0) record_rounds(commands.handle(), rounds);
  }
  commands.run();
  std::array<uint64_t, 2> ticks{};
  check(vk.vkGetQueryPoolResults(device_.handle(), stamps_, 0, 2, sizeof ticks, ticks.data(),
                                 sizeof(uint64_t), VK_QUERY_RESULT_64_BIT),
        "reading timestamps");
  return static_cast<double>((ticks[1] - ticks[0]) & device_.tick_mask()) * device_.tick_us();
}

} // namespace npc
