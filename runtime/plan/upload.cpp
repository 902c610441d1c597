#include "plan/upload.h"

#include <algorithm>
#include <cstring>
#include <optional>

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

Status write_tile(Writer& writer, const WeightStore::Item& item, size_t tile) {
  const uint64_t payload = item.format.tile_payload_bytes(), scale = item.format.tile_scale_bytes();
  PUMICE_CHECK(writer.reserve(Writer::align16(payload) + Writer::align16(scale)));
  PUMICE_TRY(std::span<std::byte> to,
             writer.place(item.payload.part, item.payload.offset + tile * payload, payload));
  std::span<std::byte> scales;
  if (scale) {
    PUMICE_TRY(scales, writer.place(item.scales.part, item.scales.offset + tile * scale, scale));
  }
  pack_tile(item.format, item.tiles[tile], to, scales);
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
    for (size_t tile = 0; tile < item.tiles.size(); ++tile) {
      if (item.format.tile_payload_bytes() * 2 > staging_bytes) {
        return Error{Code::unsupported, "a weight matrix has rows too long to be uploaded"};
      }
      PUMICE_CHECK(write_tile(writer, item, tile));
      PUMICE_CHECK(report(item.format.tile_payload_bytes() + item.format.tile_scale_bytes()));
    }
    if (item.tiles.empty()) PUMICE_CHECK(report(item.payload.bytes));
  }
  PUMICE_CHECK(writer.finish());
  if (progress && !progress(total, total)) return Error{Code::cancelled, "loading was cancelled"};
  return parts;
}

} // namespace pumice
