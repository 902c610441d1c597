#pragma once

#include <vector>

#include "gpu/commands.h"

namespace pumice {

// Points in time that the device writes while it works through command buffers. Move-only.
class Timestamps {
public:
  // `unsupported` where the device's queue has none.
  static Result<Timestamps> create(std::shared_ptr<Device> device, uint32_t count);
  Timestamps(Timestamps&& other) noexcept { *this = std::move(other); }
  Timestamps& operator=(Timestamps&& other) noexcept;
  ~Timestamps();

  // Records point `index`, from 0, reached when everything before has finished.
  void write(Commands& commands, uint32_t index) { commands.write_timestamp(pool_, index); }
  // Before the same points are written again, with nothing that writes them under way.
  void reset();
  // All points in seconds, counted from the first. Call after the submission has been waited for.
  Result<std::vector<double>> read() const;

private:
  Timestamps() = default;

  std::shared_ptr<Device> device_;
  VkQueryPool pool_ = VK_NULL_HANDLE;
  uint32_t count_ = 0;
};

} // namespace pumice
