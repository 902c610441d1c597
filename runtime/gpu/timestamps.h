#pragma once

#include <vector>

#include "gpu/commands.h"

namespace pumice {

// Points in time that the device writes while it works through command buffers. Move-only.
class Timestamps {
public:
  // `unsupported` where the device's queue has none.
  static Result<Timestamps> create(std::shared_ptr<Device> device, uint32_t count);
  Timestamps() = default;
  Timestamps(Timestamps&& other) noexcept { *this = std::move(other); }
  Timestamps& operator=(Timestamps&& other) noexcept;
  ~Timestamps();

  // Recorded before the same command buffer's points, each time they are written.
  void reset(Commands& commands) { commands.reset_queries(pool_, count_); }
  // Records point `index`, from 0, reached when everything before has finished.
  void write(Commands& commands, uint32_t index) { commands.write_timestamp(pool_, index); }
  // The first `count` points in seconds, counted from the first. Call after the submission has finished.
  Result<std::vector<double>> read(uint32_t count) const;
  Result<std::vector<double>> read() const { return read(count_); }

private:
  std::shared_ptr<Device> device_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  uint32_t count_ = 0;
};

} // namespace pumice
