#include "control.h"

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
    : device_(device), result_(device, sizeof(float), VK_BUFFER_USAGE_STORAGE_BUFFER_BIT) {
  if (device.tick_us() == 0) throw Failure("--control: this device has no timestamps");
  make_descriptors();
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
  vk.vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
  vk.vkDestroyDescriptorPool(device_.handle(), descriptor_pool_, nullptr);
  vk.vkDestroyDescriptorSetLayout(device_.handle(), set_layout_, nullptr);
}

void Control::make_descriptors() {
  const VulkanFunctions& vk = device_.functions();
  VkDescriptorSetLayoutBinding binding{};
  binding.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  binding.descriptorCount = 1;
  binding.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  VkDescriptorSetLayoutCreateInfo layout{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  layout.bindingCount = 1;
  layout.pBindings = &binding;
  check(vk.vkCreateDescriptorSetLayout(device_.handle(), &layout, nullptr, &set_layout_),
        "making a descriptor set layout");
  const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
  VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool.maxSets = 1;
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  check(vk.vkCreateDescriptorPool(device_.handle(), &pool, nullptr, &descriptor_pool_),
        "making a descriptor pool");
  VkDescriptorSetAllocateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  set.descriptorPool = descriptor_pool_;
  set.descriptorSetCount = 1;
  set.pSetLayouts = &set_layout_;
  check(vk.vkAllocateDescriptorSets(device_.handle(), &set, &set_), "making a descriptor set");
  const VkDescriptorBufferInfo buffer = {result_.handle(), 0, VK_WHOLE_SIZE};
  VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set_;
  write.descriptorCount = 1;
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = &buffer;
  vk.vkUpdateDescriptorSets(device_.handle(), 1, &write, 0, nullptr);
}

void Control::make_pipeline() {
  const VulkanFunctions& vk = device_.functions();
  const VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint32_t)};
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &push;
  check(vk.vkCreatePipelineLayout(device_.handle(), &layout, nullptr, &layout_), "making a pipeline layout");
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  code.codeSize = sizeof control_comp;
  code.pCode = control_comp;
  VkShaderModule module = VK_NULL_HANDLE;
  check(vk.vkCreateShaderModule(device_.handle(), &code, nullptr, &module), "making a shader module");
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.layout = layout_;
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
  vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout_, 0, 1, &set_, 0, nullptr);
  vk.vkCmdPushConstants(commands, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof rounds, &rounds);
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
