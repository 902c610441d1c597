#include "drawing/painter.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "canvas.frag.h"
#include "canvas.vert.h"
#include "failure.h"

namespace npc {

Painter::Painter(const Device& device, const Atlas& atlas)
    : device_(device), atlas_(device, VK_FORMAT_R8_UNORM, {Atlas::width, atlas.height()},
                              VK_IMAGE_USAGE_SAMPLED_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT),
      input_(device, VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, VK_SHADER_STAGE_FRAGMENT_BIT,
             {VK_SHADER_STAGE_VERTEX_BIT, 0, 2 * sizeof(float)}) {
  make_render_pass();
  upload(atlas);
  make_sampler();
  make_pipeline();
}

Painter::~Painter() {
  const VulkanFunctions& vk = device_.functions();
  vk.vkDestroyPipeline(device_.handle(), pipeline_, nullptr);
  vk.vkDestroySampler(device_.handle(), sampler_, nullptr);
  vk.vkDestroyRenderPass(device_.handle(), render_pass_, nullptr);
}

void Painter::make_render_pass() {
  VkAttachmentDescription attachment{};
  attachment.format = Picture::format;
  attachment.samples = VK_SAMPLE_COUNT_1_BIT;
  attachment.loadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE; // the sky covers everything
  attachment.storeOp = VK_ATTACHMENT_STORE_OP_STORE;
  attachment.stencilLoadOp = VK_ATTACHMENT_LOAD_OP_DONT_CARE;
  attachment.stencilStoreOp = VK_ATTACHMENT_STORE_OP_DONT_CARE;
  attachment.initialLayout = VK_IMAGE_LAYOUT_UNDEFINED;
  attachment.finalLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
  const VkAttachmentReference reference = {0, VK_IMAGE_LAYOUT_COLOR_ATTACHMENT_OPTIMAL};
  VkSubpassDescription subpass{};
  subpass.pipelineBindPoint = VK_PIPELINE_BIND_POINT_GRAPHICS;
  subpass.colorAttachmentCount = 1;
  subpass.pColorAttachments = &reference;
  const VkSubpassDependency dependencies[] = {
      {VK_SUBPASS_EXTERNAL, 0, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT,
       VK_ACCESS_TRANSFER_READ_BIT,
       VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT | VK_ACCESS_COLOR_ATTACHMENT_READ_BIT, 0},
      {0, VK_SUBPASS_EXTERNAL, VK_PIPELINE_STAGE_COLOR_ATTACHMENT_OUTPUT_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT,
       VK_ACCESS_COLOR_ATTACHMENT_WRITE_BIT, VK_ACCESS_TRANSFER_READ_BIT, 0}};
  VkRenderPassCreateInfo info{VK_STRUCTURE_TYPE_RENDER_PASS_CREATE_INFO};
  info.attachmentCount = 1;
  info.pAttachments = &attachment;
  info.subpassCount = 1;
  info.pSubpasses = &subpass;
  info.dependencyCount = 2;
  info.pDependencies = dependencies;
  check(device_.functions().vkCreateRenderPass(device_.handle(), &info, nullptr, &render_pass_),
        "making a render pass");
}

void Painter::upload(const Atlas& atlas) {
  const VulkanFunctions& vk = device_.functions();
  const Buffer staging(device_, atlas.pixels().size(), VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
  std::memcpy(staging.data(), atlas.pixels().data(), atlas.pixels().size());
  OneTimeCommands commands(device_);
  constexpr ImageUse nothing = {VK_IMAGE_LAYOUT_UNDEFINED, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, 0};
  constexpr ImageUse written = {VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                VK_ACCESS_TRANSFER_WRITE_BIT};
  constexpr ImageUse sampled = {VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL,
                                VK_PIPELINE_STAGE_FRAGMENT_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT};
  change_use(vk, commands.handle(), atlas_.handle(), nothing, written);
  VkBufferImageCopy region{};
  region.imageSubresource = whole_layer;
  region.imageExtent = {Atlas::width, atlas.height(), 1};
  vk.vkCmdCopyBufferToImage(commands.handle(), staging.handle(), atlas_.handle(), written.layout, 1, &region);
  change_use(vk, commands.handle(), atlas_.handle(), written, sampled);
  commands.run();
}

void Painter::make_sampler() {
  const VulkanFunctions& vk = device_.functions();
  VkSamplerCreateInfo sampler{VK_STRUCTURE_TYPE_SAMPLER_CREATE_INFO};
  sampler.magFilter = VK_FILTER_NEAREST; // letters are at whole pixels
  sampler.minFilter = VK_FILTER_NEAREST;
  sampler.addressModeU = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE;
  sampler.addressModeV = VK_SAMPLER_ADDRESS_MODE_CLAMP_TO_EDGE;
  check(vk.vkCreateSampler(device_.handle(), &sampler, nullptr, &sampler_), "making a sampler");
  input_.set(VkDescriptorImageInfo{sampler_, atlas_.view(), VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL});
}

void Painter::make_pipeline() {
  const VulkanFunctions& vk = device_.functions();
  const VkVertexInputBindingDescription binding = {0, sizeof(Vertex), VK_VERTEX_INPUT_RATE_VERTEX};
  const VkVertexInputAttributeDescription attributes[] = {
      {0, 0, VK_FORMAT_R32G32_SFLOAT, offsetof(Vertex, position)},
      {1, 0, VK_FORMAT_R32G32_SFLOAT, offsetof(Vertex, place)},
      {2, 0, VK_FORMAT_R8G8B8A8_UNORM, offsetof(Vertex, colour)}};
  VkPipelineVertexInputStateCreateInfo input{VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
  input.vertexBindingDescriptionCount = 1;
  input.pVertexBindingDescriptions = &binding;
  input.vertexAttributeDescriptionCount = 3;
  input.pVertexAttributeDescriptions = attributes;
  VkPipelineInputAssemblyStateCreateInfo assembly{
      VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
  assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_LIST;
  VkPipelineViewportStateCreateInfo viewport{VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO};
  viewport.viewportCount = 1;
  viewport.scissorCount = 1;
  VkPipelineRasterizationStateCreateInfo raster{VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
  raster.lineWidth = 1;
  VkPipelineMultisampleStateCreateInfo samples{VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
  samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
  VkPipelineColorBlendAttachmentState blend{};
  blend.blendEnable = VK_TRUE;
  blend.srcColorBlendFactor = VK_BLEND_FACTOR_SRC_ALPHA;
  blend.dstColorBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA;
  blend.srcAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
  blend.dstAlphaBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA;
  blend.colorWriteMask = VK_COLOR_COMPONENT_R_BIT | VK_COLOR_COMPONENT_G_BIT | VK_COLOR_COMPONENT_B_BIT |
                         VK_COLOR_COMPONENT_A_BIT;
  VkPipelineColorBlendStateCreateInfo blending{VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
  blending.attachmentCount = 1;
  blending.pAttachments = &blend;
  const VkDynamicState states[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
  VkPipelineDynamicStateCreateInfo dynamic{VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO};
  dynamic.dynamicStateCount = 2;
  dynamic.pDynamicStates = states;

  const VkShaderModule vertex = make_module(device_, canvas_vert),
                       fragment = make_module(device_, canvas_frag);
  const VkPipelineShaderStageCreateInfo stages[] = {shader_stage(VK_SHADER_STAGE_VERTEX_BIT, vertex),
                                                    shader_stage(VK_SHADER_STAGE_FRAGMENT_BIT, fragment)};
  VkGraphicsPipelineCreateInfo info{VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO};
  info.stageCount = 2;
  info.pStages = stages;
  info.pVertexInputState = &input;
  info.pInputAssemblyState = &assembly;
  info.pViewportState = &viewport;
  info.pRasterizationState = &raster;
  info.pMultisampleState = &samples;
  info.pColorBlendState = &blending;
  info.pDynamicState = &dynamic;
  info.layout = input_.layout();
  info.renderPass = render_pass_;
  const VkResult made =
      vk.vkCreateGraphicsPipelines(device_.handle(), VK_NULL_HANDLE, 1, &info, nullptr, &pipeline_);
  vk.vkDestroyShaderModule(device_.handle(), vertex, nullptr);
  vk.vkDestroyShaderModule(device_.handle(), fragment, nullptr);
  check(made, "making the pipeline");
}

void Painter::draw(VkCommandBuffer commands, const Canvas& canvas, const Picture& picture,
                   const Buffer& vertices) const {
  const VulkanFunctions& vk = device_.functions();
  const size_t count = std::min(canvas.vertices().size(), most_vertices);
  std::memcpy(vertices.data(), canvas.vertices().data(), count * sizeof(Vertex));

  const VkRect2D area = {{0, 0}, picture.extent()};
  const float width = static_cast<float>(area.extent.width), height = static_cast<float>(area.extent.height);
  const VkViewport viewport = {0, 0, width, height, 0, 1};
  const float pixel[] = {2 / width, 2 / height};
  const VkBuffer buffer = vertices.handle();
  const VkDeviceSize start = 0;
  VkRenderPassBeginInfo begin{VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO};
  begin.renderPass = render_pass_;
  begin.framebuffer = picture.framebuffer();
  begin.renderArea = area;
  vk.vkCmdBeginRenderPass(commands, &begin, VK_SUBPASS_CONTENTS_INLINE);
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_GRAPHICS, pipeline_);
  input_.bind(commands, VK_PIPELINE_BIND_POINT_GRAPHICS);
  vk.vkCmdSetViewport(commands, 0, 1, &viewport);
  vk.vkCmdSetScissor(commands, 0, 1, &area);
  vk.vkCmdPushConstants(commands, input_.layout(), VK_SHADER_STAGE_VERTEX_BIT, 0, sizeof pixel, pixel);
  vk.vkCmdBindVertexBuffers(commands, 0, 1, &buffer, &start);
  vk.vkCmdDraw(commands, static_cast<uint32_t>(count), 1, 0, 0);
  vk.vkCmdEndRenderPass(commands);
}

} // namespace npc
