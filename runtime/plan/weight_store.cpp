#include "plan/weight_store.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/align.h"
#include "gpu/memory.h"
#include "io/quantize.h"

namespace pumice {

namespace {

std::string names(std::span<const WeightView> weights) {
  std::string text;
  for (const WeightView& weight : weights) text += (text.empty() ? "" : " + ") + weight.tensor->name;
  return text;
}

Error asked_late(const std::string& what) {
  return {Code::internal, fmt::format("{}: a plan asked for it after the upload", what)};
}

// The tiles of a matrix's rows, the last one padded.
void append_tiles(std::vector<TileSource>& tiles, const WeightView* weight) {
  const uint32_t rows = static_cast<uint32_t>(weight->rows);
  for (uint32_t row = 0; row < rows; row += 8) tiles.push_back({weight, row, std::min(8u, rows - row)});
}

// Takes `group` elements of each in turn, in the order of the tiles of two alternating matrices.
template <class T>
std::vector<T> interleave(const std::vector<T>& a, const std::vector<T>& b, size_t group) {
  std::vector<T> out;
  out.reserve(a.size() + b.size());
  for (size_t i = 0; i < a.size(); i += group) {
    for (const std::vector<T>* side : {&a, &b})
      out.insert(out.end(), side->begin() + i, side->begin() + i + group);
  }
  return out;
}

} // namespace

WeightStore::WeightStore(const DeviceProfile& profile, const Capabilities& device,
                         std::optional<TensorType> weights, HostWeights on_host)
    : profile_(profile), weights_(weights),
      alignment_(std::max<uint64_t>(256, device.storage_offset_alignment)),
      range_limit_(device.max_storage_range_bytes),
      allocation_limit_(std::min(device.max_allocation_bytes - 4096, preferred_allocation_bytes)),
      tiles_limit_(device.max_workgroups[1]), on_host_(std::move(on_host)) {
  range_limit_ = std::min(range_limit_, allocation_limit_);
}

uint64_t WeightStore::bytes() const {
  return std::accumulate(allocations_.begin(), allocations_.end(), uint64_t{0},
                         [](uint64_t sum, const Allocation& each) { return sum + each.bytes; });
}

Result<PackedWeight> WeightStore::matrix(std::span<const WeightView> weights, bool alternating,
                                         WeightRole role) {
  const Key key{{weights.begin(), weights.end()}, alternating};
  if (auto found = matrices_.find(key); found != matrices_.end()) return found->second;
  if (sealed_) return asked_late(names(weights));

  PackedWeight packed;
  const TensorType type = quantized_type(weights[0].type(), weights_);
  packed.format = {type, static_cast<uint32_t>(weights[0].columns), profile_.weight_lane_bytes(type)};
  std::vector<TileSource> tiles;
  if (alternating) {
    for (size_t i = 0; i + 1 < weights.size(); i += 2) {
      std::vector<TileSource> a, b;
      append_tiles(a, &*views_.insert(weights[i]).first);
      append_tiles(b, &*views_.insert(weights[i + 1]).first);
      const std::vector<TileSource> pair = interleave(a, b, 1);
      tiles.resize(align(tiles.size(), merged_columns / 8));
      tiles.insert(tiles.end(), pair.begin(), pair.end());
    }
  } else {
    for (const WeightView& weight : weights) {
      tiles.resize(align(tiles.size(), merged_columns / 8));
      append_tiles(tiles, &*views_.insert(weight).first);
    }
  }
  // Whole multiples of 32 result columns: the zeros at the end of a row of activations come from these tiles.
  tiles.resize(align(tiles.size(), alternating ? 8 : 4));
  packed.tiles = static_cast<uint32_t>(tiles.size());
  has_experts_ |= role == WeightRole::expert;
  PUMICE_CHECK(place_segments(packed, std::move(tiles), weights, role));
  matrices_.emplace(key, packed);
  return packed;
}

bool WeightStore::lies_on_host(std::span<const WeightView> weights, WeightRole role) const {
  if (on_host_.experts && role == WeightRole::expert) return true;
  return std::ranges::all_of(
      weights, [&](const WeightView& weight) { return on_host_.tensors.contains(weight.tensor->name); });
}

Status WeightStore::place_segments(PackedWeight& packed, std::vector<TileSource> tiles,
                                   std::span<const WeightView> weights, WeightRole role) {
  const std::string what = names(weights);
  const bool on_host = lies_on_host(weights, role);
  const uint64_t tile_bytes = packed.format.tile_payload_bytes();
  uint32_t limit = static_cast<uint32_t>(range_limit_ / tile_bytes) / 8 * 8;
  // A product of experts has workgroups for the tiles of one expert only.
  if (role == WeightRole::usual) limit = std::min(limit, std::max(8u, tiles_limit_ / 8 * 8));
  if (limit == 0) {
    return Error{
        Code::unsupported,
        fmt::format("{}: rows of {} columns are too long for this device, whose kernels can reach {} "
                    "bytes at once",
                    what, packed.format.columns, range_limit_)};
  }
  for (uint32_t first = 0; first < packed.tiles; first += limit) {
    WeightSegment segment;
    segment.first_tile = first;
    segment.tiles = std::min(limit, packed.tiles - first);
    PUMICE_TRY(segment.payload, place(segment.tiles * tile_bytes, what, on_host));
    if (packed.format.scaled()) {
      PUMICE_TRY(segment.scales, place(segment.tiles * packed.format.tile_scale_bytes(), what, on_host));
    }
    packed.segments.push_back(segment);
    items_.push_back({segment.payload,
                      segment.scales,
                      packed.format,
                      {tiles.begin() + first, tiles.begin() + first + segment.tiles},
                      {}});
  }
  return {};
}

Result<BufferRef> WeightStore::vector(std::span<const WeightView> weights, bool alternating) {
  const Key key{{weights.begin(), weights.end()}, alternating};
  if (auto found = vectors_.find(key); found != vectors_.end()) return found->second;
  std::vector<float> values;
  if (alternating) {
    values = interleave(decode_vector(weights[0]), decode_vector(weights[1]), 8);
  } else {
    for (const WeightView& weight : weights) {
      const std::vector<float> decoded = decode_vector(weight);
      values.resize(align(values.size(), merged_columns));
      values.insert(values.end(), decoded.begin(), decoded.end());
    }
  }
  values.resize(align(values.size(), alternating ? 64 : 32));
  PUMICE_TRY(BufferRef ref, place_values(std::move(values), names(weights)));
  vectors_.emplace(key, ref);
  return ref;
}

Result<BufferRef> WeightStore::constants(const std::string& key, std::span<const float> values) {
  if (auto found = constants_.find(key); found != constants_.end()) return found->second;
  PUMICE_TRY(BufferRef ref, place_values({values.begin(), values.end()}, key));
  constants_.emplace(key, ref);
  return ref;
}

Result<BufferRef> WeightStore::place_values(std::vector<float> values, const std::string& what) {
  PUMICE_TRY(BufferRef ref, place(values.size() * sizeof(float), what));
  items_.push_back({ref, {}, {}, {}, std::move(values)});
  return ref;
}

Result<BufferRef> WeightStore::place(uint64_t bytes, const std::string& what, bool on_host) {
  if (sealed_) return asked_late(what);
  if (bytes > range_limit_) {
    return Error{Code::unsupported,
                 fmt::format("{}: it takes {} bytes, and this device's kernels can reach {} at once", what,
                             bytes, range_limit_)};
  }
  std::optional<uint32_t>& open = open_[on_host];
  if (!open || align(allocations_[*open].bytes, alignment_) + bytes > allocation_limit_) {
    open = static_cast<uint32_t>(allocations_.size());
    allocations_.push_back({0, on_host});
  }
  const uint64_t offset = align(allocations_[*open].bytes, alignment_);
  allocations_[*open].bytes = offset + bytes;
  return BufferRef{Space::weights, *open, offset, bytes};
}

} // namespace pumice
