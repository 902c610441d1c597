#include "gpu/pipelines.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/guarded.h"
#include "gpu/kernel_table.h"
#include "gpu/known_drivers.h"
#include "gpu/spirv.h"
#include "io/output_file.h"
#include "shaders/common/texels.h"

namespace pumice {

namespace {

bool is_known(const Device& device, bool KnownDriver::*fault) {
  return std::ranges::any_of(known_faults(device.capabilities()), fault);
}

} // namespace

Result<std::shared_ptr<Pipelines>> Pipelines::create(std::shared_ptr<Device> device,
                                                     const std::filesystem::path& cache_folder) {
  std::shared_ptr<Pipelines> pipelines(new Pipelines(std::move(device)));
  const Device& owner = *pipelines->device_;
  const VulkanTable& vk = owner.table();
  PUMICE_CHECK(pipelines->make_layouts());

  DeviceFile kept;
  if (!cache_folder.empty()) {
    pipelines->cache_file_ = device_file_path(cache_folder, owner.capabilities());
    kept = read_device_file(pipelines->cache_file_, owner.capabilities());
  }
  pipelines->tuning_results_ = pipelines->stored_ = std::move(kept.tuning_results);
  pipelines->read_notes();
  if (is_known(owner, &KnownDriver::compiles_anew)) kept.pipelines.clear();
  VkPipelineCacheCreateInfo cache{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  cache.initialDataSize = kept.pipelines.size();
  cache.pInitialData = kept.pipelines.data();
  if (VkResult result = vk.vkCreatePipelineCache(owner.handle(), &cache, nullptr, &pipelines->cache_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreatePipelineCache", result);
  }
  owner.set_name(VK_OBJECT_TYPE_PIPELINE_CACHE, pipelines->cache_, "pipelines");
  return pipelines;
}

void Pipelines::read_notes() {
  notes_ = left_notes(cache_file_);
  unsaved_ = !notes_.empty();
  for (const LeftNote& note : notes_) {
    if (tuning_results_.emplace(note.name, note.value).second) noted_.push_back(note.name);
  }
}

Status Pipelines::make_layouts() {
  const VulkanTable& vk = device_->table();
  static_assert(TEXELS_BINDING == most_storage_buffers);
  std::array<VkDescriptorSetLayoutBinding, most_storage_buffers + TEXEL_SLOTS> slots = {};
  for (uint32_t slot = 0; slot < descriptor_slots(); ++slot) {
    slots[slot] = {slot, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  }
  for (uint32_t slot = 0; slot < texel_slots(); ++slot) {
    slots[descriptor_slots() + slot] = {TEXELS_BINDING + slot, VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, 1,
                                        VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  }
  VkDescriptorSetLayoutCreateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set.bindingCount = descriptor_slots() + texel_slots();
  set.pBindings = slots.data();
  if (VkResult result = vk.vkCreateDescriptorSetLayout(device_->handle(), &set, nullptr, &set_layout_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateDescriptorSetLayout", result);
  }
  device_->set_name(VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, set_layout_, "buffers of a kernel");
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_constant_bytes};
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  if (VkResult result = vk.vkCreatePipelineLayout(device_->handle(), &layout, nullptr, &layout_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreatePipelineLayout", result);
  }
  device_->set_name(VK_OBJECT_TYPE_PIPELINE_LAYOUT, layout_, "inputs of a kernel");
  return {};
}

uint32_t Pipelines::descriptor_slots() const {
  return std::min(most_storage_buffers, device_->capabilities().max_storage_buffers);
}

uint32_t Pipelines::texel_slots() const {
  return device_->capabilities().uses_addresses() ? TEXEL_SLOTS : 0;
}

Pipelines::~Pipelines() {
  if (device_->hangs()) return;
  const VulkanTable& vk = device_->table();
  for (const auto& [key, pipeline] : pipelines_) vk.vkDestroyPipeline(device_->handle(), pipeline, nullptr);
  if (cache_) vk.vkDestroyPipelineCache(device_->handle(), cache_, nullptr);
  if (layout_) vk.vkDestroyPipelineLayout(device_->handle(), layout_, nullptr);
  if (set_layout_) vk.vkDestroyDescriptorSetLayout(device_->handle(), set_layout_, nullptr);
}

Result<VkPipeline> Pipelines::get(const std::string& kernel, const std::vector<uint32_t>& constants) {
  std::unique_lock lock(mutex_);
  const auto key = std::make_pair(kernel, constants);
  for (auto found = pipelines_.find(key); found != pipelines_.end(); found = pipelines_.find(key)) {
    if (found->second) return found->second;
    made_.wait(lock);
  }
  const auto entry = pipelines_.emplace(key, VK_NULL_HANDLE).first;
  lock.unlock();
  Result<VkPipeline> pipeline = guarded([&] { return make(kernel, constants); });
  lock.lock();
  if (pipeline.ok()) {
    entry->second = *pipeline;
    unsaved_ = true;
  } else {
    pipelines_.erase(entry); // threads that wait for it try to make it themselves
  }
  made_.notify_all();
  return pipeline;
}

TuningResults Pipelines::tuning_results() const {
  std::lock_guard lock(mutex_);
  return tuning_results_;
}

void Pipelines::set_tuning_result(const std::string& name, const std::string& value) {
  std::lock_guard lock(mutex_);
  std::string& known = tuning_results_[name];
  if (known == value) return;
  known = value;
  unsaved_ = true;
}

void Pipelines::change_tuning_results(const TuningResults& values, const std::set<std::string>& gone) {
  std::lock_guard lock(mutex_);
  TuningResults all = tuning_results_;
  for (const std::string& name : gone) all.erase(name);
  for (const auto& [name, value] : values) all[name] = value;
  unsaved_ = unsaved_ || all != tuning_results_;
  tuning_results_ = std::move(all);
}

void Pipelines::add_tuning_results(const TuningResults& more) {
  std::lock_guard lock(mutex_);
  const size_t before = tuning_results_.size();
  tuning_results_.insert(more.begin(), more.end());
  unsaved_ = unsaved_ || tuning_results_.size() != before;
}

size_t Pipelines::count() const {
  std::lock_guard lock(mutex_);
  return pipelines_.size();
}

bool Pipelines::compiled(const std::string& kernel, const std::vector<uint32_t>& constants) const {
  std::lock_guard lock(mutex_);
  return compiled_.contains({kernel, constants});
}

void Pipelines::set_compiled(const std::string& kernel, const std::vector<uint32_t>& constants) {
  std::lock_guard lock(mutex_);
  compiled_.emplace(kernel, constants);
}

Result<VkPipeline> Pipelines::make(const std::string& kernel, const std::vector<uint32_t>& constants) {
  const KernelBinary* binary = find_kernel(kernel);
  if (!binary) return Error{Code::unsupported, fmt::format("this build has no kernel named '{}'", kernel)};

  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t id = 0; id < constants.size(); ++id) entries.push_back({id, id * 4, 4});

  const VulkanTable& vk = device_->table();
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  const std::span<const uint32_t> words = binary->code();
  code.codeSize = words.size_bytes();
  code.pCode = words.data();
  static std::mutex compiler; // a driver has one for all its devices
  std::unique_lock alone(compiler, std::defer_lock);
  if (is_known(*device_, &KnownDriver::one_compiler)) alone.lock();
  VkShaderModule module = VK_NULL_HANDLE;
  if (VkResult result = vk.vkCreateShaderModule(device_->handle(), &code, nullptr, &module);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateShaderModule", result);
  }
  device_->set_name(VK_OBJECT_TYPE_SHADER_MODULE, module, kernel);

  VkSpecializationInfo specialisation{static_cast<uint32_t>(entries.size()), entries.data(),
                                      constants.size() * 4, constants.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialisation;
  // Kernels are shaped for full subgroups of one size. Where the device has several, it must be asked for it.
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  const Capabilities& capabilities = device_->capabilities();
  subgroups.requiredSubgroupSize = capabilities.kernel_subgroup_size();
  if (capabilities.full_subgroups && subgroups.requiredSubgroupSize > 0 && uses_subgroups(words) &&
      !constants.empty() && constants[0] % subgroups.requiredSubgroupSize == 0) {
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    if (capabilities.min_subgroup_size < capabilities.max_subgroup_size) info.stage.pNext = &subgroups;
  }
  info.layout = layout_;
  info.flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT; // parts of long launches begin at later workgroups
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result =
      vk.vkCreateComputePipelines(device_->handle(), cache_, 1, &info, nullptr, &pipeline);
  vk.vkDestroyShaderModule(device_->handle(), module, nullptr);
  if (result != VK_SUCCESS) {
    Error error = vulkan_error("vkCreateComputePipelines", result);
    error.message += fmt::format(" for kernel '{}'", kernel);
    return error;
  }
  device_->set_name(VK_OBJECT_TYPE_PIPELINE, pipeline, kernel);
  return pipeline;
}

bool Pipelines::can_save() const {
  if (cache_file_.empty()) return false;
  std::error_code ignored;
  std::filesystem::create_directories(cache_file_.parent_path(), ignored);
  return OutputFile::check(cache_file_).ok();
}

Status Pipelines::save() {
  std::lock_guard lock(mutex_);
  if (cache_file_.empty() || !unsaved_) return {};
  const VulkanTable& vk = device_->table();
  size_t size = 0;
  if (VkResult result = vk.vkGetPipelineCacheData(device_->handle(), cache_, &size, nullptr);
      result != VK_SUCCESS) {
    return vulkan_error("vkGetPipelineCacheData", result);
  }
  for (const auto& [name, value] : read_device_file(cache_file_, device_->capabilities()).tuning_results) {
    if (!stored_.contains(name)) tuning_results_.emplace(name, value); // another process has added it
  }
  DeviceFile kept{tuning_results_, std::vector<std::byte>(size)};
  if (VkResult result = vk.vkGetPipelineCacheData(device_->handle(), cache_, &size, kept.pipelines.data());
      result < 0) {
    return vulkan_error("vkGetPipelineCacheData", result);
  }
  kept.pipelines.resize(size);
  PUMICE_CHECK(write_device_file(cache_file_, device_->capabilities(), kept));
  stored_ = tuning_results_;
  unsaved_ = false;
  std::error_code ignored;
  for (const LeftNote& note : notes_) std::filesystem::remove(note.path, ignored);
  notes_.clear();
  return {};
}

} // namespace pumice
