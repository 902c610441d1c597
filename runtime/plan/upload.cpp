#include "plan/upload.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "gpu/commands.h"

namespace pumice {

namespace {

constexpr uint64_t staging_bytes = uint64_t{8} << 20;

// Where the host writes a range of a weight buffer, whichever way it gets there.
class Writer {
public:
  Writer(std::shared_ptr<Device> device, const std::vector<Buffer>& parts)
      : device_(std::move(device)), parts_(parts) {}

  // Makes room for place() calls of `bytes` in all, so that none of them sends off what another has placed.
  Status reserve(uint64_t bytes) {
    if (slots_[current_].used + bytes <= staging_bytes) return {};
    return flush();
  }

  // Memory for bytes [offset, offset + bytes) of a part, to be filled before the next reserve().
  Result<std::span<std::byte>> place(uint32_t part, uint64_t offset, uint64_t bytes) {
    const std::span<std::byte> mapped = parts_[part].mapped();
    if (!mapped.empty()) return mapped.subspan(offset, bytes);
    Slot& slot = slots_[current_];
    if (!slot.buffer) {
      PUMICE_TRY(slot.buffer, Buffer::create(device_, staging_bytes, MemoryUse::upload));
    }
    slot.copies.push_back({part, offset, slot.used, bytes});
    const std::span<std::byte> where = slot.buffer.mapped().subspan(slot.used, bytes);
    slot.used += align16(bytes);
    return where;
  }

  static uint64_t align16(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

  // Starts copying what has been placed, and makes the other staging buffer ready.
  Status flush() {
    Slot& slot = slots_[current_];
    if (!slot.copies.empty()) {
      PUMICE_TRY(Commands commands, Commands::create(device_));
      PUMICE_CHECK(commands.begin());
      for (const Copy& copy : slot.copies) {
        commands.copy(slot.buffer, copy.from, parts_[copy.part], copy.offset, copy.bytes);
      }
      commands.barrier();
      PUMICE_CHECK(commands.end());
      PUMICE_TRY(slot.done, device_->submit(commands.buffers()));
      slot.commands = std::move(commands);
      slot.copies.clear();
    }
    current_ ^= 1;
    Slot& next = slots_[current_];
    PUMICE_CHECK(device_->wait(next.done));
    next.used = 0;
    return {};
  }

  Status finish() {
    PUMICE_CHECK(flush());
    return flush();
  }

private:
  struct Copy {
    uint32_t part;
    uint64_t offset, from, bytes;
  };
  struct Slot {
    Buffer buffer;
    Commands commands;
    std::vector<Copy> copies;
    uint64_t used = 0;
    uint64_t done = 0; // timeline value after which the buffer may be written again
  };

  std::shared_ptr<Device> device_;
  const std::vector<Buffer>& parts_;
  Slot slots_[2];
  int current_ = 0;
};

// Where a packed tile goes.
struct TileTarget {
  std::span<std::byte> payload, scales;
};

Status write_values(Writer& writer, const WeightStore::Item& item) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(item.values));
  for (uint64_t done = 0; done < bytes.size();) {
    const uint64_t size = std::min<uint64_t>(staging_bytes, bytes.size() - done);
    PUMICE_CHECK(writer.reserve(size));
    PUMICE_TRY(std::span<std::byte> where, writer.place(item.payload.part, item.payload.offset + done, size));
    std::memcpy(where.data(), bytes.data() + done, size);
    done += size;
  }
  return {};
}

// Packs tiles on all of the host's cores: decoding and quantising take longer than the copy.
void pack_tiles(const WeightStore::Item& item, size_t first, std::span<const TileTarget> targets) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < targets.size(); i = next++) {
      pack_tile(item.format, item.tiles[first + i], targets[i].payload, targets[i].scales);
    }
  };
  const size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  for (size_t i = 1; i < std::min(cores, targets.size()); ++i) helpers.emplace_back(work);
  work();
}

// Bytes of staging memory that a tile takes.
uint64_t staged_bytes(const PackedFormat& format) {
  return Writer::align16(format.tile_payload_bytes()) + Writer::align16(format.tile_scale_bytes());
}

Status write_tiles(Writer& writer, const WeightStore::Item& item, size_t first, size_t count) {
  const uint64_t payload = item.format.tile_payload_bytes(), scale = item.format.tile_scale_bytes();
  PUMICE_CHECK(writer.reserve(count * staged_bytes(item.format)));
  std::vector<TileTarget> targets(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t tile = first + i;
    PUMICE_TRY(targets[i].payload,
               writer.place(item.payload.part, item.payload.offset + tile * payload, payload));
    if (scale) {
      PUMICE_TRY(targets[i].scales, writer.place(item.scales.part, item.scales.offset + tile * scale, scale));
    }
  }
  pack_tiles(item, first, targets);
  return {};
}

} // namespace

Result<std::vector<Buffer>> upload_weights(const std::shared_ptr<Device>& device, const WeightStore& store,
                                           const Progress& progress) {
  std::vector<Buffer> parts;
  for (uint64_t bytes : store.part_bytes()) {
    PUMICE_TRY(Buffer part, Buffer::create(device, bytes, MemoryUse::device));
    parts.push_back(std::move(part));
  }
  Writer writer(device, parts);
  const uint64_t total = store.bytes();
  uint64_t done = 0, reported = 0;
  const auto report = [&](uint64_t bytes) -> Status {
    done += bytes;
    if (!progress || done - reported < staging_bytes) return {};
    reported = done;
    if (!progress(done, total)) return Error{Code::cancelled, "loading was cancelled"};
    return {};
  };
  for (const WeightStore::Item& item : store.items()) {
    if (item.tiles.empty()) PUMICE_CHECK(write_values(writer, item));
    if (item.tiles.empty()) PUMICE_CHECK(report(item.payload.bytes));
    for (size_t tile = 0; tile < item.tiles.size();) {
      if (staged_bytes(item.format) > staging_bytes) {
        return Error{Code::unsupported, "a weight matrix has rows too long to be uploaded"};
      }
      const size_t most = std::max<uint64_t>(1, staging_bytes / 4 / staged_bytes(item.format));
      const size_t count = std::min(most, item.tiles.size() - tile);
      PUMICE_CHECK(write_tiles(writer, item, tile, count));
      PUMICE_CHECK(report(count * (item.format.tile_payload_bytes() + item.format.tile_scale_bytes())));
      tile += count;
    }
  }
  PUMICE_CHECK(writer.finish());
  if (progress && !progress(total, total)) return Error{Code::cancelled, "loading was cancelled"};
  return parts;
}

} // namespace pumice
