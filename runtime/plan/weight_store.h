#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "gpu/capabilities.h"
#include "io/weight_view.h"
#include "kernel/device_profile.h"
#include "kernel/packed_weight.h"

namespace pumice {

// What a matrix is to its model.
enum class WeightRole {
  usual,
  expert // of a mixture: a step reads only some of them
};

// Whose memory the matrices of experts take.
enum class ExpertPlacement {
  automatic, // the device's, if that has room for them
  device,
  host, // kernels read them there, over the bus of a device with memory of its own
};

// The matrices that lie in the host's memory, where kernels read them over the bus of a device with memory of
// its own.
struct HostWeights {
  bool experts = false;
  std::set<std::string> tensors; // by their names
};

// Decides where a model's weights lie on the device. Each request for a matrix, a vector or constants gets a
// place; the same request gets the same place again. Nothing is allocated or read from the file until the
// upload (plan/upload.h).
class WeightStore {
public:
  // Matrices of 16- or 32-bit numbers are quantised to `weights` if it is given; quantised matrices stay as
  // they are.
  WeightStore(const DeviceProfile& profile, const Capabilities& device,
              std::optional<TensorType> weights = {}, HostWeights on_host = {});

  // See the functions of the same names in kernel/lowering.h.
  Result<PackedWeight> matrix(std::span<const WeightView> weights, bool alternating,
                              WeightRole role = WeightRole::usual);
  Result<BufferRef> vector(std::span<const WeightView> weights, bool alternating);
  Result<BufferRef> constants(const std::string& key, std::span<const float> values);

  // Requests for new places fail from now on, and change nothing: several threads may make plans.
  void seal() { sealed_ = true; }
  // Call it once the weights are on the device.
  void forget_items() {
    items_ = {};
    views_ = {};
  }

  // What the upload writes to one range of an allocation.
  struct Item {
    BufferRef payload;
    BufferRef scales; // no bytes unless the format has scales
    PackedFormat format;
    std::vector<TileSource> tiles; // a matrix's, or
    std::vector<float> values;     // a vector's or constants
  };
  const std::vector<Item>& items() const { return items_; }

  // What is allocated (BufferRef::allocation in Space::weights).
  struct Allocation {
    uint64_t bytes = 0;
    bool on_host = false;
  };
  const std::vector<Allocation>& allocations() const { return allocations_; }
  uint64_t bytes() const;
  bool has_experts() const { return has_experts_; }

private:
  using Key = std::pair<std::vector<WeightView>, bool>;
  bool lies_on_host(std::span<const WeightView> weights, WeightRole role) const;
  Result<BufferRef> place(uint64_t bytes, const std::string& what, bool on_host = false);
  Result<BufferRef> place_values(std::vector<float> values, const std::string& what);
  Status place_segments(PackedWeight& packed, std::vector<TileSource> tiles,
                        std::span<const WeightView> weights, WeightRole role);

  DeviceProfile profile_;
  std::optional<TensorType> weights_;
  bool sealed_ = false;
  uint64_t alignment_;
  uint64_t range_limit_;      // of what one binding covers
  uint64_t allocation_limit_; // of one allocation
  uint32_t tiles_limit_;      // of a segment: a product's launch has a workgroup for each tile at most
  const HostWeights on_host_;
  bool has_experts_ = false;
  std::vector<Allocation> allocations_;
  std::optional<uint32_t> open_[2]; // the allocation that grows, on the device and on the host
  std::vector<Item> items_;
  std::set<WeightView> views_; // that tiles point to
  std::map<Key, PackedWeight> matrices_;
  std::map<Key, BufferRef> vectors_;
  std::map<std::string, BufferRef> constants_;
};

} // namespace pumice
