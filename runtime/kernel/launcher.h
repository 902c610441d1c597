#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/buffer.h"
#include "gpu/commands.h"
#include "gpu/pipelines.h"
#include "kernel/dispatch.h"

namespace pumice {

// Finds the allocation that a range lies in; its offset is counted from that allocation's start.
using BufferLookup = std::function<const Buffer&(const BufferRef&)>;

// A dispatch with its pipeline and descriptor set. Valid as long as the launcher that made it.
struct Launch {
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkDescriptorSet set = VK_NULL_HANDLE;
  std::vector<std::byte> params;
  std::array<uint32_t, 3> groups = {}, first_group = {};
};

// Records dispatches into command buffers. It owns their descriptor sets and the views in these, so it must
// live as long as the command buffers.
class Launcher {
public:
  Launcher(std::shared_ptr<Device> device, std::shared_ptr<Pipelines> pipelines)
      : device_(std::move(device)), pipelines_(std::move(pipelines)) {}
  Launcher(Launcher&& other) noexcept = default;
  Launcher& operator=(Launcher&&) = delete;
  ~Launcher();

  Result<Launch> prepare(const Dispatch& dispatch, const BufferLookup& lookup);
  void record(Commands& commands, const Launch& launch) const;
  Status record(Commands& commands, const Dispatch& dispatch, const BufferLookup& lookup);

private:
  Result<VkDescriptorSet> descriptor_set(const Dispatch& dispatch, const BufferLookup& lookup);
  // The buffers' ranges by storage slot, as texels.
  Status set_texels(VkDescriptorSet set, const Dispatch& dispatch,
                    std::span<const VkDescriptorBufferInfo> buffers);
  Status add_pool();

  std::shared_ptr<Device> device_;
  std::shared_ptr<Pipelines> pipelines_;
  std::vector<VkDescriptorPool> pools_;
  std::vector<VkBufferView> views_;
  uint32_t sets_left_ = 0; // in the last pool
};

} // namespace pumice
