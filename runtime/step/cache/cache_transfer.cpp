#include "step/cache/cache_transfer.h"

#include <algorithm>
#include <cstring>

#include "gpu/commands.h"

namespace pumice {

namespace {

constexpr uint64_t transfer_bytes = uint64_t{4} << 20;
constexpr uint32_t tile = 8; // positions

} // namespace

Status copy_and_wait(const std::shared_ptr<Device>& device, std::span<const BufferCopy> copies) {
  PUMICE_TRY(Commands commands, Commands::create(device, "cache copy"));
  PUMICE_CHECK(commands.begin());
  commands.barrier();
  std::vector<VkBufferCopy> regions; // between the same buffers
  for (size_t i = 0; i < copies.size(); ++i) {
    const BufferCopy& copy = copies[i];
    regions.push_back(copy.region);
    const bool more = i + 1 < copies.size() && copies[i + 1].from == copy.from && copies[i + 1].to == copy.to;
    if (more) continue;
    commands.copy(copy.from, copy.to, regions);
    regions.clear();
  }
  commands.host_barrier();
  PUMICE_CHECK(commands.end());
  return commands.run_and_wait();
}

uint32_t positions_in_use(uint32_t capacity, uint32_t cached, uint32_t written_end) {
  return written_end > capacity ? capacity : std::min((cached + tile - 1) / tile * tile, capacity);
}

std::vector<CacheRange> cache_ranges(const CacheRef& cache, uint32_t sequence, uint32_t positions) {
  const CacheLayout& layout = cache.layout;
  std::vector<CacheRange> ranges;
  if (positions == 0) return ranges;
  for (const bool keys : {true, false}) {
    if (layout.values_are_keys && !keys) break;
    for (uint32_t head = 0; head < layout.kv_heads; ++head) {
      for (const CacheRef& part : cache.parts()) {
        const CacheLayout& part_layout = part.layout;
        const uint32_t first_position =
            part_layout.split == CacheSplit::positions ? part_layout.part_first : 0;
        const uint32_t first_sequence =
            part_layout.split == CacheSplit::sequences ? part_layout.part_first : 0;
        if (sequence - first_sequence >= part_layout.sequences || positions <= first_position) continue;
        const BufferRef& ref = keys ? part.keys : part.values;
        const uint64_t index = uint64_t{sequence - first_sequence} * part_layout.kv_heads + head;
        const uint32_t tiles = std::min(positions - first_position, part_layout.capacity) / tile;
        const uint64_t bytes = keys ? part_layout.key_tile_bytes() : part_layout.value_tile_bytes();
        ranges.push_back(
            {ref.allocation, ref.offset + index * (part_layout.capacity / tile) * bytes, tiles * bytes});
      }
    }
  }
  return ranges;
}

std::vector<CacheRange> state_ranges(const StateRef& state, uint32_t sequence, uint32_t position) {
  if (position == 0) return {};
  const uint64_t offset = state.buffer.offset + state.layout.offset(sequence, position);
  return {{state.buffer.allocation, offset, state.layout.state_bytes()}};
}

Status CacheTransfer::stage() {
  if (staging_) return {};
  PUMICE_TRY(staging_, Buffer::create(device_, transfer_bytes, MemoryUse::readback, "cache staging"));
  return {};
}

Status CacheTransfer::read(const Buffer& from, uint64_t offset, std::span<std::byte> to) {
  if (!from.mapped().empty() && from.cached()) {
    std::memcpy(to.data(), from.mapped().data() + offset, to.size());
    return {};
  }
  PUMICE_CHECK(stage());
  for (uint64_t done = 0; done < to.size();) {
    const uint64_t bytes = std::min<uint64_t>(transfer_bytes, to.size() - done);
    const BufferCopy piece{from.handle(), staging_.handle(), {offset + done, 0, bytes}};
    PUMICE_CHECK(copy_and_wait(device_, std::span(&piece, 1)));
    std::memcpy(to.data() + done, staging_.mapped().data(), bytes);
    done += bytes;
  }
  return {};
}

Status CacheTransfer::write(std::span<const std::byte> from, const Buffer& to, uint64_t offset) {
  if (!to.mapped().empty()) {
    std::memcpy(to.mapped().data() + offset, from.data(), from.size());
    return {};
  }
  PUMICE_CHECK(stage());
  for (uint64_t done = 0; done < from.size();) {
    const uint64_t bytes = std::min<uint64_t>(transfer_bytes, from.size() - done);
    std::memcpy(staging_.mapped().data(), from.data() + done, bytes);
    const BufferCopy piece{staging_.handle(), to.handle(), {0, offset + done, bytes}};
    PUMICE_CHECK(copy_and_wait(device_, std::span(&piece, 1)));
    done += bytes;
  }
  return {};
}

} // namespace pumice
