#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/buffer.h"

namespace pumice {

// Places in the host's memory for the results of a session's steps, between two stages of a process whose
// devices both import it: one stage writes its results there, and the next one reads them as its input.
// There are so many that one is read, one waits, and one is written.
class HopBuffers {
public:
  static constexpr uint32_t count = 3;

  // `layout`: of the sender, which the receiver must have too.
  static Result<std::shared_ptr<HopBuffers>> create(uint64_t bytes, uint64_t alignment,
                                                    std::vector<uint64_t> layout);

  const std::vector<uint64_t>& layout() const { return layout_; }
  // A buffer for each place, on one of the two devices.
  Result<std::vector<Buffer>> import(const std::shared_ptr<Device>& device) const;
  uint64_t buffer_bytes() const { return memory_[0]->buffer_bytes(); }
  std::span<const std::byte> bytes(uint32_t place) const { return memory_[place]->bytes(); }

  // The receiver reads from these places: said before the first step, or never.
  void accept() { accepted_ = true; }
  // For the sender: a place for the next step; none where the receiver has not accepted, or still reads what
  // it would be.
  std::optional<uint32_t> take();
  // For the receiver, and after an error for the sender: nothing uses the place any more.
  void release(uint32_t place) { taken_[place] = false; }

private:
  explicit HopBuffers(std::vector<uint64_t> layout) : layout_(std::move(layout)) {}

  const std::vector<uint64_t> layout_;
  std::array<std::shared_ptr<HostMemory>, count> memory_;
  std::array<std::atomic<bool>, count> taken_ = {};
  std::atomic<bool> accepted_ = false;
  uint32_t next_ = 0;
};

// One end of such places, with the device's buffers.
struct HopEnd {
  std::shared_ptr<HopBuffers> places; // null: there are none, and messages carry what steps compute
  std::vector<Buffer> buffers;
  std::optional<uint32_t> place; // of the last step
};

} // namespace pumice
