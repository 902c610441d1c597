#include "kernel/launcher.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/align.h"
#include "shaders/common/texels.h"

namespace pumice {

namespace {

constexpr uint32_t sets_per_pool = 128;

} // namespace

Launcher::~Launcher() {
  if (!device_ || device_->hangs()) return; // without a device it was moved from
  for (VkDescriptorPool pool : pools_) {
    device_->table().vkDestroyDescriptorPool(device_->handle(), pool, nullptr);
  }
  for (VkBufferView view : views_) device_->table().vkDestroyBufferView(device_->handle(), view, nullptr);
}

Result<Launch> Launcher::prepare(const Dispatch& dispatch, const BufferLookup& lookup) {
  Launch launch;
  PUMICE_TRY(launch.pipeline, pipelines_->get(dispatch.kernel, dispatch.constants));
  PUMICE_TRY(launch.set, descriptor_set(dispatch, lookup));
  launch.params = dispatch.params;
  launch.groups = dispatch.groups;
  launch.first_group = dispatch.first_group;
  for (const Dispatch::Address& entry : dispatch.addresses) {
    const uint64_t address = lookup(entry.buffer).address() + entry.buffer.offset;
    std::memcpy(launch.params.data() + entry.param_offset, &address, sizeof(address));
  }
  return launch;
}

void Launcher::record(Commands& commands, const Launch& launch) const {
  commands.dispatch(launch.pipeline, pipelines_->layout(), launch.set, launch.params, launch.groups,
                    launch.first_group);
}

Status Launcher::record(Commands& commands, const Dispatch& dispatch, const BufferLookup& lookup) {
  PUMICE_TRY(const Launch launch, prepare(dispatch, lookup));
  record(commands, launch);
  return {};
}

Result<VkDescriptorSet> Launcher::descriptor_set(const Dispatch& dispatch, const BufferLookup& lookup) {
  if (sets_left_ == 0) PUMICE_CHECK(add_pool());
  VkDescriptorSetLayout layout = pipelines_->set_layout();
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pools_.back();
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  if (VkResult result = device_->table().vkAllocateDescriptorSets(device_->handle(), &info, &set);
      result != VK_SUCCESS) {
    return vulkan_error("vkAllocateDescriptorSets", result);
  }
  --sets_left_;
  // A set has no name: Mesa's drivers never free the names of sets that go with their pool.

  // A slot that the kernel does not use in this specialisation still has to hold something: what it writes
  // anyway, which no other launch touches without a barrier between them.
  const auto written = std::ranges::find_if(
      dispatch.bindings, [](const Dispatch::Binding& binding) { return binding.access != Access::read; });
  const Dispatch::Binding& filler = written == dispatch.bindings.end() ? dispatch.bindings.front() : *written;
  const uint32_t slots = pipelines_->descriptor_slots();
  std::array<VkDescriptorBufferInfo, most_storage_buffers> buffers = {};
  std::array<VkWriteDescriptorSet, most_storage_buffers> writes = {};
  const auto range = [&](const BufferRef& ref) {
    return VkDescriptorBufferInfo{lookup(ref).handle(), ref.offset, ref.bytes};
  };
  buffers.fill(range(filler.buffer));
  for (const Dispatch::Binding& binding : dispatch.bindings) buffers[binding.slot] = range(binding.buffer);
  for (uint32_t slot = 0; slot < slots; ++slot) {
    writes[slot] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[slot].dstSet = set;
    writes[slot].dstBinding = slot;
    writes[slot].descriptorCount = 1;
    writes[slot].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    writes[slot].pBufferInfo = &buffers[slot];
  }
  device_->table().vkUpdateDescriptorSets(device_->handle(), slots, writes.data(), 0, nullptr);
  if (pipelines_->texel_slots() > 0) PUMICE_CHECK(set_texels(set, dispatch, buffers));
  return set;
}

Status Launcher::set_texels(VkDescriptorSet set, const Dispatch& dispatch,
                            std::span<const VkDescriptorBufferInfo> buffers) {
  std::array<VkBufferView, TEXEL_SLOTS> views = {};
  std::array<VkWriteDescriptorSet, TEXEL_SLOTS> writes = {};
  views_.reserve(views_.size() + TEXEL_SLOTS); // before there is a view to lose
  for (uint32_t slot = 0; slot < TEXEL_SLOTS; ++slot) {
    const bool quads = slot < TEXEL_QUAD_SLOTS;
    const auto named = std::ranges::find(dispatch.texels, slot, &Dispatch::Texels::texel_slot);
    VkBufferViewCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO};
    info.format = quads ? VK_FORMAT_R32G32B32A32_UINT : VK_FORMAT_R32_UINT;
    if (named == dispatch.texels.end()) {
      // Here too a slot that goes unused has to hold something.
      info.buffer = buffers[0].buffer;
      info.offset = buffers[0].offset;
      info.range = 16;
    } else {
      const VkDescriptorBufferInfo& bound = buffers[named->slot];
      info.buffer = bound.buffer;
      info.offset = bound.offset;
      info.range = align(bound.range, 16); // a buffer has as much, see Buffer::allocated_bytes
    }
    if (VkResult result =
            device_->table().vkCreateBufferView(device_->handle(), &info, nullptr, &views[slot]);
        result != VK_SUCCESS) {
      return vulkan_error("vkCreateBufferView", result);
    }
    views_.push_back(views[slot]);
    writes[slot] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    writes[slot].dstSet = set;
    writes[slot].dstBinding = TEXELS_BINDING + slot;
    writes[slot].descriptorCount = 1;
    writes[slot].descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
    writes[slot].pTexelBufferView = &views[slot];
  }
  device_->table().vkUpdateDescriptorSets(device_->handle(), TEXEL_SLOTS, writes.data(), 0, nullptr);
  return {};
}

Status Launcher::add_pool() {
  const std::array<VkDescriptorPoolSize, 2> sizes = {
      {{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, sets_per_pool * pipelines_->descriptor_slots()},
       {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, sets_per_pool * pipelines_->texel_slots()}}};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = sets_per_pool;
  info.poolSizeCount = pipelines_->texel_slots() > 0 ? 2 : 1;
  info.pPoolSizes = sizes.data();
  pools_.reserve(pools_.size() + 1); // before there is a pool to lose
  VkDescriptorPool pool = VK_NULL_HANDLE;
  if (VkResult result = device_->table().vkCreateDescriptorPool(device_->handle(), &info, nullptr, &pool);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateDescriptorPool", result);
  }
  device_->set_name(VK_OBJECT_TYPE_DESCRIPTOR_POOL, pool, "buffers of kernels");
  pools_.push_back(pool);
  sets_left_ = sets_per_pool;
  return {};
}

} // namespace pumice
