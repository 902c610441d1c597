#pragma once

#include <span>
#include <vector>

#include "gpu/buffer.h"
#include "gpu/commands.h"

namespace pumice {

// Timestamps in seconds, counted from the first. Their clock begins again at 0 after the last of its valid
// bits; they must not be further apart than it counts.
std::vector<double> seconds_from_first(std::span<const uint64_t> ticks, uint32_t valid_bits,
                                       double period_ns);

// Times that the device records while it executes command buffers. The device also copies them to where the
// host reads them: vkGetQueryPoolResults waits until the device is idle on some drivers, also for other work
// in the queue. Move-only.
class Timestamps {
public:
  // Error `unsupported` if the device's queue has no timestamps.
  static Result<Timestamps> create(std::shared_ptr<Device> device, uint32_t count);
  // Bytes of device memory that so many timestamps take.
  static Result<uint64_t> memory_needed(const Device& device, uint32_t count);
  Timestamps() = default;
  Timestamps(Timestamps&& other) noexcept { *this = std::move(other); }
  Timestamps& operator=(Timestamps&& other) noexcept;
  ~Timestamps();

  // To be recorded before the first write() in a command buffer.
  void reset(Commands& commands) { commands.reset_queries(pool_, count_); }
  // Records point `index`, from 0, reached when everything before has finished.
  void write(Commands& commands, uint32_t index) { commands.write_timestamp(pool_, index); }
  // Records that the first `count` points go to the host. After the last write() in a command buffer, and
  // before a barrier.
  void finish(Commands& commands, uint32_t count);
  void finish(Commands& commands) { finish(commands, count_); }
  // The first `count` points in seconds, counted from the first. Call after the submission has finished.
  std::vector<double> read(uint32_t count) const;
  std::vector<double> read() const { return read(count_); }

private:
  std::shared_ptr<Device> device_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  Buffer results_;
  uint32_t count_ = 0;
};

} // namespace pumice
