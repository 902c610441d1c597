#pragma once

#include <array>
#include <span>
#include <vector>

#include "gpu/buffer.h"

namespace pumice {

// A command pool and its command buffers, which it owns. Move-only; used by one thread at a time.
class Commands {
public:
  // `name`: of its buffers, for captures and validation messages.
  static Result<Commands> create(std::shared_ptr<Device> device, const char* name = "");
  // For another queue of the device.
  static Result<Commands> create(std::shared_ptr<Device> device, const Queue& queue, const char* name);
  // Records into the application's command buffer, which is in the recording state. It is not begun, ended or
  // freed here.
  static Commands into(std::shared_ptr<Device> device, VkCommandBuffer buffer);
  Commands() = default;
  Commands(Commands&& other) noexcept { *this = std::move(other); }
  Commands& operator=(Commands&& other) noexcept;
  ~Commands();

  // Starts another command buffer. It may be submitted again while an earlier submission of it still runs.
  Status begin();
  // Resets all buffers, so that they can be recorded again. None of them may be in use by the device.
  Status reset();
  // Ends the buffer that begin() started; it is the last of buffers().
  Status end();
  // Submits all buffers, which have ended, and waits until they have run.
  Status run_and_wait();

  // All earlier kernels and copies finish, and their writes are visible, before later ones begin.
  void barrier();
  // The same between kernels alone, many times in a step: some drivers flush more for copies, and all caches
  // for the host.
  void kernel_barrier();
  // As barrier(), and the host can read what was written, after it has waited for the submission.
  void host_barrier();
  // Runs so many workgroups on each axis, numbered from `first` on.
  void dispatch(VkPipeline pipeline, VkPipelineLayout layout, VkDescriptorSet set,
                std::span<const std::byte> push_constants, std::array<uint32_t, 3> groups,
                std::array<uint32_t, 3> first = {});
  void copy(const Buffer& from, uint64_t from_offset, const Buffer& to, uint64_t to_offset, uint64_t bytes);
  void copy(VkBuffer from, VkBuffer to, std::span<const VkBufferCopy> regions);
  // Copies a part of an image for the host to read, after it has waited for the submission. What was before
  // in the queue has finished by then, and the image is in its layout again.
  void copy(VkImage image, VkImageLayout layout, const VkBufferImageCopy& region, const Buffer& to);
  void fill(const Buffer& buffer, uint64_t offset, uint64_t bytes, uint32_t value);
  void reset_queries(VkQueryPool pool, uint32_t count);
  void write_timestamp(VkQueryPool pool, uint32_t index);
  // Copies the results of the first `count` queries, 64 bits each, to the beginning of a buffer.
  void copy_queries(VkQueryPool pool, uint32_t count, const Buffer& to);
  // Sets the event when everything before has finished.
  void set_event(VkEvent event);

  std::span<const VkCommandBuffer> buffers() const { return std::span(buffers_).first(used_); }

private:
  struct Access {
    VkPipelineStageFlags stages;
    VkAccessFlags reads, writes;
  };
  static constexpr Access kernels = {VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_READ_BIT,
                                     VK_ACCESS_SHADER_WRITE_BIT};
  static constexpr Access work = {kernels.stages | VK_PIPELINE_STAGE_TRANSFER_BIT,
                                  kernels.reads | VK_ACCESS_TRANSFER_READ_BIT,
                                  kernels.writes | VK_ACCESS_TRANSFER_WRITE_BIT};
  static constexpr Access work_and_host = {work.stages | VK_PIPELINE_STAGE_HOST_BIT,
                                           work.reads | VK_ACCESS_HOST_READ_BIT, work.writes};
  void barrier(const Access& before, const Access& after);
  Status add_buffer();
  VkCommandBuffer current() const { return buffers_[used_ - 1]; }

  std::shared_ptr<Device> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  const char* name_ = "";
  std::vector<VkCommandBuffer> buffers_;
  size_t used_ = 0; // buffers that were begun since the last reset
};

} // namespace pumice
