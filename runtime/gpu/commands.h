#pragma once

#include <array>
#include <span>
#include <vector>

#include "gpu/buffer.h"

namespace pumice {

// A command pool and the buffers recorded from it; both go when this goes. Move-only, used by one thread.
class Commands {
public:
  // `name`: of its buffers, for captures and validation messages.
  static Result<Commands> create(std::shared_ptr<Device> device, const char* name = "");
  // The application's command buffer, in the recording state: recorded into, neither begun, ended nor freed.
  static Commands into(std::shared_ptr<Device> device, VkCommandBuffer buffer);
  Commands() = default;
  Commands(Commands&& other) noexcept { *this = std::move(other); }
  Commands& operator=(Commands&& other) noexcept;
  ~Commands();

  // Starts another command buffer. It may be submitted again while an earlier submission of it still runs.
  Status begin();
  // Takes all buffers back, to begin anew. None of them may be under way.
  Status reset();
  // Ends the buffer that begin() started; it is the last of buffers().
  Status end();

  // Everything before finishes, and what it wrote is seen, before anything after begins: kernels, copies, and
  // the host's reads once the submission is waited for.
  void barrier();
  void dispatch(VkPipeline pipeline, VkPipelineLayout layout, VkDescriptorSet set,
                std::span<const std::byte> push_constants, std::array<uint32_t, 3> groups);
  void copy(const Buffer& from, uint64_t from_offset, const Buffer& to, uint64_t to_offset, uint64_t bytes);
  void copy(VkBuffer from, VkBuffer to, std::span<const VkBufferCopy> regions);
  void fill(const Buffer& buffer, uint64_t offset, uint64_t bytes, uint32_t value);
  void reset_queries(VkQueryPool pool, uint32_t count);
  void write_timestamp(VkQueryPool pool, uint32_t index);
  // Sets the event when everything before has finished.
  void set_event(VkEvent event);

  std::span<const VkCommandBuffer> buffers() const { return std::span(buffers_).first(used_); }

private:
  Status add_buffer();
  VkCommandBuffer current() const { return buffers_[used_ - 1]; }

  std::shared_ptr<Device> device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  const char* name_ = "";
  std::vector<VkCommandBuffer> buffers_;
  size_t used_ = 0; // of the buffers, since the last reset
};

} // namespace pumice
