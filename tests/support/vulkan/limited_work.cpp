#include "support/vulkan/limited_state.h"

#include <algorithm>
#include <array>
#include <optional>

#include "support/command/reported_answers.h"
#include "support/vulkan/shader_demands.h"

using namespace limited;

namespace {

// With the mutex held.
void check_range(const char* call, VkBuffer buffer, uint64_t offset, uint64_t bytes, VkBufferUsageFlags usage,
                 std::optional<uint32_t> family = {}) {
  const auto found = state->buffers.find(buffer);
  if (found == state->buffers.end()) {
    violate("{}: a buffer that does not exist", call);
    return;
  }
  BufferState& used = found->second;
  if (!used.bound) violate("{}: a buffer without memory", call);
  if ((used.usage & usage) != usage) violate("{}: a buffer that was not made for this use", call);
  if (offset > used.bytes || bytes > used.bytes - offset)
    violate("{}: {} bytes at offset {} of a buffer of {}", call, bytes, offset, used.bytes);
  if (family && used.families.empty()) used.families = {*family};
  if (family && std::ranges::find(used.families, *family) == used.families.end())
    violate("{}: on queue family {}, with a buffer that family {} has", call, *family, used.families[0]);
}

// ---- descriptors

VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(VkDevice device, const VkDescriptorSetLayoutCreateInfo* info,
                                                 const VkAllocationCallbacks* callbacks,
                                                 VkDescriptorSetLayout* layout) {
  const VkResult result = state->real.vkCreateDescriptorSetLayout(device, info, callbacks, layout);
  const std::lock_guard lock(state->mutex);
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < info->bindingCount; ++i) buffers += info->pBindings[i].descriptorCount;
  at_most("vkCreateDescriptorSetLayout", buffers, state->device.limits.storage_buffers,
          "storage buffers to a shader");
  state->set_layouts[*layout] = buffers;
  return result;
}
VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice device, uint32_t count, const VkWriteDescriptorSet* writes,
                                       uint32_t copies, const VkCopyDescriptorSet* copied) {
  {
    const std::lock_guard lock(state->mutex);
    const ReportedLimits& limits = state->device.limits;
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t j = 0; writes[i].pBufferInfo && j < writes[i].descriptorCount; ++j) {
        const VkDescriptorBufferInfo& bound = writes[i].pBufferInfo[j];
        at_most<uint64_t>("vkUpdateDescriptorSets", bound.range, limits.storage_range, "bytes in a binding");
        if (bound.offset % limits.offset_alignment)
          violate("vkUpdateDescriptorSets: offset {}; {} needs multiples of {}", bound.offset,
                  state->device.name, limits.offset_alignment);
        if (bound.range == 0) violate("vkUpdateDescriptorSets: an empty range");
        check_range("vkUpdateDescriptorSets", bound.buffer, bound.offset, bound.range,
                    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
      }
    }
  }
  state->real.vkUpdateDescriptorSets(device, count, writes, copies, copied);
}
VKAPI_ATTR VkResult VKAPI_CALL create_layout(VkDevice device, const VkPipelineLayoutCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkPipelineLayout* layout) {
  const VkResult result = state->real.vkCreatePipelineLayout(device, info, callbacks, layout);
  const std::lock_guard lock(state->mutex);
  State::LayoutState made;
  for (uint32_t i = 0; i < info->pushConstantRangeCount; ++i) {
    const VkPushConstantRange& range = info->pPushConstantRanges[i];
    made.push_constant_bytes = std::max(made.push_constant_bytes, range.offset + range.size);
  }
  at_most("vkCreatePipelineLayout", made.push_constant_bytes, state->device.limits.push_constant_bytes,
          "bytes of push constants");
  for (uint32_t i = 0; i < info->setLayoutCount; ++i)
    made.storage_buffers += state->set_layouts[info->pSetLayouts[i]];
  state->layouts[*layout] = made;
  return result;
}

// ---- shaders

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkShaderModule* module) {
  const VkResult result = state->real.vkCreateShaderModule(device, info, callbacks, module);
  std::vector<uint32_t> code(info->pCode, info->pCode + info->codeSize / 4);
  const ShaderDemands demands = read_shader(code, nullptr);
  const std::lock_guard lock(state->mutex);
  for (const uint32_t capability : demands.capabilities) {
    const std::string missing = missing_for(capability, state->device, state->enabled);
    if (!missing.empty())
      violate("vkCreateShaderModule: a shader needs {}, which is not switched on for {}", missing,
              state->device.name);
  }
  state->modules[*module] = std::move(code);
  return result;
}
VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice device, VkShaderModule module,
                                          const VkAllocationCallbacks* callbacks) {
  {
    const std::lock_guard lock(state->mutex);
    state->modules.erase(module);
  }
  state->real.vkDestroyShaderModule(device, module, callbacks);
}

void check_subgroups(const VkPipelineShaderStageCreateInfo& stage, const ShaderDemands& demands) {
  const ReportedSubgroups& subgroups = state->device.subgroups;
  uint32_t required = 0;
  for (auto* next = static_cast<const VkBaseInStructure*>(stage.pNext); next; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO) continue;
    required = reinterpret_cast<const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo*>(next)
                   ->requiredSubgroupSize;
  }
  const bool full = stage.flags & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  if ((required || full) && !state->enabled.size_control)
    violate("vkCreateComputePipelines: full subgroups or a size of them, without subgroupSizeControl");
  if (required && !subgroups.required)
    violate("vkCreateComputePipelines: a size of subgroups, for which shaders of {} cannot ask",
            state->device.name);
  if (required && (required < subgroups.least || required > subgroups.greatest))
    violate("vkCreateComputePipelines: subgroups of {}; {} has those of {} to {}", required,
            state->device.name, subgroups.least, subgroups.greatest);
  const uint32_t size = required ? required : std::max(subgroups.greatest, subgroups.size);
  if (full && demands.workgroup[0] % size)
    violate("vkCreateComputePipelines: full subgroups of {} in a workgroup of {}", size,
            demands.workgroup[0]);
  const uint32_t invocations = demands.workgroup[0] * demands.workgroup[1] * demands.workgroup[2];
  if (required)
    at_most("vkCreateComputePipelines", invocations / required, subgroups.most, "subgroups in a workgroup");
  // A shuffle reads from a lane by its number, so the kernel was made for one size.
  constexpr uint32_t shuffle = 65;
  const bool shuffles = std::ranges::find(demands.capabilities, shuffle) != demands.capabilities.end();
  if (shuffles && !required && subgroups.least != subgroups.greatest)
    violate("vkCreateComputePipelines: a kernel with shuffles, and {} chooses the size of its subgroups",
            state->device.name);
}

void check_pipeline(const VkComputePipelineCreateInfo& info) {
  const ReportedLimits& limits = state->device.limits;
  const ShaderDemands demands =
      read_shader(state->modules[info.stage.module], info.stage.pSpecializationInfo);
  constexpr const char* call = "vkCreateComputePipelines";
  uint64_t invocations = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    at_most(call, demands.workgroup[axis], limits.workgroup[axis],
            "invocations along an axis of a workgroup");
    invocations *= demands.workgroup[axis];
  }
  if (invocations == 0) violate("{}: a workgroup without invocations", call);
  at_most<uint64_t>(call, invocations, limits.invocations, "invocations in a workgroup");
  at_most<uint64_t>(call, demands.shared_bytes, limits.shared_bytes, "bytes of shared memory");
  const State::LayoutState& layout = state->layouts[info.layout];
  at_most<uint64_t>(call, demands.push_constant_bytes, layout.push_constant_bytes,
                    "bytes of push constants in a shader");
  if (demands.storage_buffers > layout.storage_buffers)
    violate("{}: a shader has {} storage buffers, and its layout {}", call, demands.storage_buffers,
            layout.storage_buffers);
  check_subgroups(info.stage, demands);
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* callbacks,
                                                VkPipeline* pipelines) {
  {
    const std::lock_guard lock(state->mutex);
    const size_t before = state->violations.size();
    for (uint32_t i = 0; i < count; ++i) check_pipeline(infos[i]);
    // A driver may crash on what is wrong.
    if (state->machine && state->violations.size() > before) return VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  const VkResult result =
      state->real.vkCreateComputePipelines(device, cache, count, infos, callbacks, pipelines);
  const std::lock_guard lock(state->mutex);
  for (uint32_t i = 0; i < count; ++i)
    state->pipelines[pipelines[i]] = infos[i].flags & VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;
  return result;
}

// ---- commands

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                           const VkAllocationCallbacks* callbacks, VkCommandPool* pool) {
  VkCommandPoolCreateInfo other = *info;
  if (state->machine) other.queueFamilyIndex = state->real_family;
  const VkResult result = state->real.vkCreateCommandPool(device, &other, callbacks, pool);
  const std::lock_guard lock(state->mutex);
  if (!state->queues.contains({info->queueFamilyIndex, 0}))
    violate("vkCreateCommandPool: queue family {}, with which the device was not made",
            info->queueFamilyIndex);
  state->pool_families[*pool] = info->queueFamilyIndex;
  return result;
}
VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo* info,
                                                 VkCommandBuffer* buffers) {
  const VkResult result = state->real.vkAllocateCommandBuffers(device, info, buffers);
  const std::lock_guard lock(state->mutex);
  for (uint32_t i = 0; i < info->commandBufferCount; ++i) state->commands[buffers[i]] = {info->commandPool};
  return result;
}

// With the mutex held. The family that commands are recorded for.
uint32_t family_number(VkCommandBuffer buffer) {
  return state->pool_families[state->commands[buffer].pool];
}
const VkQueueFamilyProperties& family_of(VkCommandBuffer buffer) {
  return state->device.families.at(family_number(buffer));
}
void need_compute(const char* call, VkCommandBuffer buffer) {
  if (!(family_of(buffer).queueFlags & VK_QUEUE_COMPUTE_BIT))
    violate("{}: on a queue that does not compute", call);
}

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer buffer, VkPipelineBindPoint point,
                                         VkPipeline pipeline) {
  {
    const std::lock_guard lock(state->mutex);
    if (!state->pipelines.contains(pipeline)) violate("vkCmdBindPipeline: a pipeline that does not exist");
    need_compute("vkCmdBindPipeline", buffer);
    state->commands[buffer].pipeline = pipeline;
  }
  state->real.vkCmdBindPipeline(buffer, point, pipeline);
}
VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer buffer, VkPipelineBindPoint point,
                                     VkPipelineLayout layout, uint32_t first, uint32_t count,
                                     const VkDescriptorSet* sets, uint32_t dynamic_count,
                                     const uint32_t* dynamic) {
  {
    const std::lock_guard lock(state->mutex);
    if (count > 0) state->commands[buffer].set = sets[0];
  }
  state->real.vkCmdBindDescriptorSets(buffer, point, layout, first, count, sets, dynamic_count, dynamic);
}
VKAPI_ATTR void VKAPI_CALL push_constants(VkCommandBuffer buffer, VkPipelineLayout layout,
                                          VkShaderStageFlags stages, uint32_t offset, uint32_t bytes,
                                          const void* values) {
  {
    const std::lock_guard lock(state->mutex);
    at_most("vkCmdPushConstants", offset + bytes, state->layouts[layout].push_constant_bytes,
            "bytes of push constants");
    if (bytes == 0 || bytes % 4 || offset % 4)
      violate("vkCmdPushConstants: {} bytes at offset {}: multiples of 4 are needed", bytes, offset);
  }
  state->real.vkCmdPushConstants(buffer, layout, stages, offset, bytes, values);
}
void check_dispatch(VkCommandBuffer buffer, std::array<uint32_t, 3> first, std::array<uint32_t, 3> groups) {
  const std::lock_guard lock(state->mutex);
  for (size_t axis = 0; axis < 3; ++axis) {
    at_most("vkCmdDispatch", first[axis] + groups[axis], state->device.limits.workgroups[axis],
            "workgroups along an axis");
  }
  const CommandState& recorded = state->commands[buffer];
  if (!recorded.pipeline || !recorded.set) violate("vkCmdDispatch: without a pipeline or a descriptor set");
  const bool whole = std::ranges::count(first, 0u) == 3;
  if (!whole && recorded.pipeline && !state->pipelines[recorded.pipeline])
    violate("vkCmdDispatchBase: a pipeline that was not made for it");
}
VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
  check_dispatch(buffer, {}, {x, y, z});
  state->real.vkCmdDispatch(buffer, x, y, z);
}
VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer buffer, uint32_t first_x, uint32_t first_y,
                                         uint32_t first_z, uint32_t x, uint32_t y, uint32_t z) {
  check_dispatch(buffer, {first_x, first_y, first_z}, {x, y, z});
  state->real.vkCmdDispatchBase(buffer, first_x, first_y, first_z, x, y, z);
}
VKAPI_ATTR void VKAPI_CALL copy_buffer(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t count,
                                       const VkBufferCopy* regions) {
  {
    const std::lock_guard lock(state->mutex);
    for (uint32_t i = 0; i < count; ++i) {
      check_range("vkCmdCopyBuffer", from, regions[i].srcOffset, regions[i].size,
                  VK_BUFFER_USAGE_TRANSFER_SRC_BIT, family_number(buffer));
      check_range("vkCmdCopyBuffer", to, regions[i].dstOffset, regions[i].size,
                  VK_BUFFER_USAGE_TRANSFER_DST_BIT, family_number(buffer));
      if (regions[i].size == 0) violate("vkCmdCopyBuffer: a copy of 0 bytes");
    }
  }
  state->real.vkCmdCopyBuffer(buffer, from, to, count, regions);
}
VKAPI_ATTR void VKAPI_CALL fill_buffer(VkCommandBuffer buffer, VkBuffer to, VkDeviceSize offset,
                                       VkDeviceSize bytes, uint32_t value) {
  {
    const std::lock_guard lock(state->mutex);
    check_range("vkCmdFillBuffer", to, offset, bytes, VK_BUFFER_USAGE_TRANSFER_DST_BIT,
                family_number(buffer));
    if (offset % 4 || bytes % 4 || bytes == 0)
      violate("vkCmdFillBuffer: {} bytes at offset {}: multiples of 4 are needed", bytes, offset);
  }
  state->real.vkCmdFillBuffer(buffer, to, offset, bytes, value);
}
VKAPI_ATTR void VKAPI_CALL pipeline_barrier(VkCommandBuffer buffer, VkPipelineStageFlags before,
                                            VkPipelineStageFlags after, VkDependencyFlags flags,
                                            uint32_t memory_count, const VkMemoryBarrier* memory,
                                            uint32_t buffer_count, const VkBufferMemoryBarrier* buffers,
                                            uint32_t image_count, const VkImageMemoryBarrier* images) {
  {
    const std::lock_guard lock(state->mutex);
    if ((before | after) & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) need_compute("vkCmdPipelineBarrier", buffer);
  }
  state->real.vkCmdPipelineBarrier(buffer, before, after, flags, memory_count, memory, buffer_count, buffers,
                                   image_count, images);
}
VKAPI_ATTR void VKAPI_CALL write_timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits stage,
                                           VkQueryPool pool, uint32_t index) {
  {
    const std::lock_guard lock(state->mutex);
    if (family_of(buffer).timestampValidBits == 0)
      violate("vkCmdWriteTimestamp: on a queue of {} without timestamps", state->device.name);
  }
  state->real.vkCmdWriteTimestamp(buffer, stage, pool, index);
}

} // namespace

std::map<std::string_view, PFN_vkVoidFunction> limited::work_functions() {
  return {
      LIMITED(vkCreateDescriptorSetLayout, create_set_layout),
      LIMITED(vkUpdateDescriptorSets, update_sets),
      LIMITED(vkCreatePipelineLayout, create_layout),
      LIMITED(vkCreateShaderModule, create_module),
      LIMITED(vkDestroyShaderModule, destroy_module),
      LIMITED(vkCreateComputePipelines, create_pipelines),
      LIMITED(vkCreateCommandPool, create_pool),
      LIMITED(vkAllocateCommandBuffers, allocate_commands),
      LIMITED(vkCmdBindPipeline, bind_pipeline),
      LIMITED(vkCmdBindDescriptorSets, bind_sets),
      LIMITED(vkCmdPushConstants, push_constants),
      LIMITED(vkCmdDispatch, dispatch),
      LIMITED(vkCmdDispatchBase, dispatch_base),
      LIMITED(vkCmdCopyBuffer, copy_buffer),
      LIMITED(vkCmdFillBuffer, fill_buffer),
      LIMITED(vkCmdPipelineBarrier, pipeline_barrier),
      LIMITED(vkCmdWriteTimestamp, write_timestamp),
  };
}
