#pragma once

#include <memory>
#include <vector>

#include "gpu/buffer.h"
#include "model/adapter.h"
#include "plan/adapters.h"

namespace pumice {

// The memory of a runner's adapters: places of equal size, of which sequences with the same adapter share
// one. What is in a place stays there until another adapter needs it.
class AdapterPlaces {
public:
  static Result<AdapterPlaces> create(std::shared_ptr<Device> device, std::shared_ptr<const AdapterRoom> room,
                                      AdapterMemory memory, uint32_t sequences);

  // The place of a sequence's adapter from now on, to which it is copied if it is in none. The steps in
  // flight must have ended. Error: invalid_argument, if it does not fit, or if all places have adapters of
  // other sequences.
  Result<uint32_t> place(uint32_t sequence, const std::shared_ptr<const Adapter>& adapter);
  // Whether place() would find one for a sequence that has none.
  bool has_place(const std::shared_ptr<const Adapter>& adapter) const;
  void leave(uint32_t sequence); // its adapter, which may give up its place then

  const std::shared_ptr<const AdapterRoom>& room() const { return room_; }
  const Buffer& allocation(uint32_t index) const { return allocations_[index]; }
  uint64_t memory_bytes() const;

private:
  static constexpr uint32_t nowhere = UINT32_MAX;
  bool used(uint32_t place) const; // by a sequence
  Status copy(const Adapter& adapter, uint32_t place);

  std::shared_ptr<Device> device_;
  std::shared_ptr<const AdapterRoom> room_;
  AdapterMemory memory_;
  std::vector<Buffer> allocations_;
  std::vector<std::shared_ptr<const Adapter>> places_;
  std::vector<uint32_t> of_sequence_; // the place of each
  uint32_t next_ = 0;                 // place that is given up next
};

} // namespace pumice
