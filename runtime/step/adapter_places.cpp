#include "step/adapter_places.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernel/adapter/adapter_packing.h"
#include "step/cache/cache_transfer.h"

namespace pumice {

Result<AdapterPlaces> AdapterPlaces::create(std::shared_ptr<Device> device,
                                            std::shared_ptr<const AdapterRoom> room, AdapterMemory memory,
                                            uint32_t sequences) {
  AdapterPlaces places;
  places.device_ = std::move(device);
  places.places_.resize(room->places);
  places.room_ = std::move(room);
  places.memory_ = std::move(memory);
  places.of_sequence_.assign(sequences, nowhere);
  for (uint64_t bytes : places.memory_.allocation_bytes) {
    PUMICE_TRY(Buffer buffer, Buffer::create(places.device_, bytes, MemoryUse::device, "adapters"));
    places.allocations_.push_back(std::move(buffer));
  }
  return places;
}

uint64_t AdapterPlaces::memory_bytes() const {
  uint64_t sum = 0;
  for (const Buffer& buffer : allocations_) sum += buffer.memory_bytes();
  return sum;
}

bool AdapterPlaces::used(uint32_t place) const {
  return std::ranges::count(of_sequence_, place) > 0;
}

bool AdapterPlaces::has_place(const std::shared_ptr<const Adapter>& adapter) const {
  for (uint32_t place = 0; place < places_.size(); ++place) {
    if (places_[place] == adapter || !used(place)) return true;
  }
  return false;
}

void AdapterPlaces::leave(uint32_t sequence) {
  of_sequence_[sequence] = nowhere;
}

Result<uint32_t> AdapterPlaces::place(uint32_t sequence, const std::shared_ptr<const Adapter>& adapter) {
  PUMICE_CHECK(check_room(*adapter, *room_));
  leave(sequence);
  const auto known = std::ranges::find(places_, adapter);
  uint32_t place = static_cast<uint32_t>(known - places_.begin());
  if (known == places_.end()) {
    const auto count = static_cast<uint32_t>(places_.size());
    uint32_t tried = 0;
    for (place = next_; tried < count && used(place); ++tried) place = (place + 1) % count;
    if (tried == count) {
      return Error{
          Code::invalid_argument,
          fmt::format("{}: all of the {} places for adapters have others, which texts use: make more "
                      "places, or wait for a text to end",
                      adapter->path(), count)};
    }
    next_ = (place + 1) % count;
    places_[place].reset(); // in case copying fails
    PUMICE_CHECK(copy(*adapter, place));
    places_[place] = adapter;
  }
  of_sequence_[sequence] = place;
  return place;
}

// Copies an adapter's matrices to a place, with zeros around them and in place of those that it lacks.
Status AdapterPlaces::copy(const Adapter& adapter, uint32_t place) {
  CacheTransfer transfer(device_);
  const auto write = [&](std::span<const std::byte> bytes, const BufferRef& matrix, uint64_t first,
                         uint64_t step) {
    return transfer.write(bytes, allocations_[matrix.allocation], matrix.offset + first + place * step);
  };
  for (const AdapterPart& part : memory_.parts) {
    AdapterMatrix none;
    none.rows = part.rows;
    none.columns = part.columns;
    const auto found = adapter.matrices().find(part.target);
    const AdapterMatrix& matrix = found == adapter.matrices().end() ? none : found->second;
    if (part.down.bytes > 0) {
      PUMICE_CHECK(write(packed_adapter_down(memory_.numbers, memory_.rank, matrix), part.down,
                         part.down_first, part.down_step));
    }
    const std::vector<std::byte> up =
        part.h_first ? packed_adapter_tiles(memory_.numbers, memory_.rank, *part.h_first, matrix)
                     : packed_adapter_up(memory_.numbers, memory_.rank, matrix);
    PUMICE_CHECK(write(up, part.up, part.up_first, part.up_step));
  }
  return {};
}

} // namespace pumice
