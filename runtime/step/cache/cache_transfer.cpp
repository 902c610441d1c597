#include "step/cache/cache_transfer.h"

#include <algorithm>
#include <cstring>

#include "gpu/commands.h"

namespace pumice {

namespace {

constexpr uint64_t transfer_bytes = uint64_t{4} << 20;
constexpr uint32_t tile = 8; // positions

// The first positions of a head in a pool: of a whole number of tiles.
void add_pages(const CacheRef& cache, bool keys, uint32_t head, uint32_t positions,
               std::span<const uint32_t> pages, std::vector<CacheRange>& ranges) {
  const CacheLayout& layout = cache.layout;
  const BufferRef& ref = keys ? cache.keys : cache.values;
  const uint64_t bytes = keys ? layout.key_tile_bytes() : layout.value_tile_bytes();
  for (uint32_t first = 0; first < positions; first += cache_page_positions) {
    const uint64_t index = uint64_t{pages[first / cache_page_positions]} * layout.kv_heads + head;
    const uint32_t tiles = std::min(positions - first, cache_page_positions) / tile;
    ranges.push_back(
        {ref.allocation, ref.offset + index * (cache_page_positions / tile) * bytes, tiles * bytes});
  }
}

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

std::vector<CacheRange> cache_ranges(const CacheRef& cache, uint32_t sequence, uint32_t positions,
                                     std::span<const uint32_t> pages) {
  const CacheLayout& layout = cache.layout;
  std::vector<CacheRange> ranges;
  if (positions == 0) return ranges;
  for (const bool keys : {true, false}) {
    if (layout.values_are_keys && !keys) break;
    for (uint32_t head = 0; head < layout.kv_heads; ++head) {
      if (layout.pages > 0) {
        add_pages(cache, keys, head, positions, pages, ranges);
        continue;
      }
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

std::vector<CacheRange> page_ranges(const CacheRef& cache, uint32_t page) {
  const uint64_t keys = cache.layout.key_bytes() / cache.layout.pages,
                 values = cache.layout.value_bytes() / cache.layout.pages;
  std::vector<CacheRange> ranges = {{cache.keys.allocation, cache.keys.offset + page * keys, keys}};
  if (values > 0) ranges.push_back({cache.values.allocation, cache.values.offset + page * values, values});
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

// Calls copy(staged, piece, offset, bytes) for each part of the pieces that is staged at `staged`, and
// whole() when the staging buffer is full or all have been.
template <class Copy, class Whole>
Status CacheTransfer::in_parts(std::span<const BufferPiece> pieces, const Copy& copy, const Whole& whole) {
  uint64_t staged = 0;
  for (const BufferPiece& piece : pieces) {
    for (uint64_t done = 0; done < piece.bytes;) {
      const uint64_t bytes = std::min(transfer_bytes - staged, piece.bytes - done);
      copy(staged, piece, piece.offset + done, bytes);
      staged += bytes;
      done += bytes;
      if (staged < transfer_bytes) continue;
      PUMICE_CHECK(whole(staged));
      staged = 0;
    }
  }
  return staged > 0 ? whole(staged) : Status();
}

Status CacheTransfer::read(std::span<const BufferPiece> from, std::span<std::byte> to) {
  if (std::ranges::all_of(from, [](const BufferPiece& piece) {
        return !piece.buffer->mapped().empty() && piece.buffer->cached();
      })) {
    for (const BufferPiece& piece : from) {
      std::memcpy(to.data(), piece.buffer->mapped().data() + piece.offset, piece.bytes);
      to = to.subspan(piece.bytes);
    }
    return {};
  }
  PUMICE_CHECK(stage());
  std::vector<BufferCopy> copies;
  return in_parts(
      from,
      [&](uint64_t staged, const BufferPiece& piece, uint64_t offset, uint64_t bytes) {
        copies.push_back({piece.buffer->handle(), staging_.handle(), {offset, staged, bytes}});
      },
      [&](uint64_t staged) -> Status {
        PUMICE_CHECK(copy_and_wait(device_, copies));
        copies.clear();
        std::memcpy(to.data(), staging_.mapped().data(), staged);
        to = to.subspan(staged);
        return {};
      });
}

Status CacheTransfer::write(std::span<const std::byte> from, std::span<const BufferPiece> to) {
  if (std::ranges::all_of(to, [](const BufferPiece& piece) { return !piece.buffer->mapped().empty(); })) {
    for (const BufferPiece& piece : to) {
      std::memcpy(piece.buffer->mapped().data() + piece.offset, from.data(), piece.bytes);
      from = from.subspan(piece.bytes);
    }
    return {};
  }
  PUMICE_CHECK(stage());
  std::vector<BufferCopy> copies;
  return in_parts(
      to,
      [&](uint64_t staged, const BufferPiece& piece, uint64_t offset, uint64_t bytes) {
        std::memcpy(staging_.mapped().data() + staged, from.data(), bytes);
        from = from.subspan(bytes);
        copies.push_back({staging_.handle(), piece.buffer->handle(), {staged, offset, bytes}});
      },
      [&](uint64_t) -> Status {
        PUMICE_CHECK(copy_and_wait(device_, copies));
        copies.clear();
        return {};
      });
}

Status CacheTransfer::write(std::span<const std::byte> from, const Buffer& to, uint64_t offset) {
  const BufferPiece piece{&to, offset, from.size()};
  return write(from, std::span(&piece, 1));
}

} // namespace pumice
