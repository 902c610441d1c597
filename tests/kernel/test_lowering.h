#pragma once

#include <map>
#include <vector>

#include <doctest/doctest.h>

#include "kernel/lowering.h"
#include "kernel/products/rows.h"
#include "plan/weight_store.h"
#include "support/vulkan/gpu.h"

// Lowers operations for the test device: weights lie as a plan has them, tensors and scratch wherever the
// test put them, and every launch is run.
class TestLowering : public pumice::Lowering {
public:
  // `range_limit`: bytes that a kernel can reach at once, where that is to be less than what the device
  // allows.
  TestLowering(const pumice::DeviceProfile& profile, const pumice::Graph& graph, pumice::BufferRef step,
               uint64_t range_limit = UINT64_MAX)
      : profile_(profile), graph_(graph), step_(step), store_(profile, capabilities(range_limit)) {}

  void place(pumice::TensorId id, const pumice::ActivationRef& where) { tensors_[id] = where; }
  pumice::Status lower(size_t node) {
    return graph_.nodes()[node].operation->lower(*this, graph_.nodes()[node]);
  }
  // Uploads the weights that the launches so far need and runs them.
  void run() {
    upload();
    TestGpu::get().run(dispatches_);
  }
  // As run, and leaves the launches for the caller to time.
  std::vector<pumice::Dispatch>& dispatches() { return dispatches_; }

  const pumice::DeviceProfile& profile() const override { return profile_; }
  const pumice::Graph& graph() const override { return graph_; }
  pumice::ActivationRef tensor(pumice::TensorId id) const override { return tensors_.at(id); }
  pumice::Result<pumice::PackedWeight> matrix(std::span<const pumice::WeightId> weights,
                                              bool alternating) override {
    return store_.matrix(views(weights), alternating);
  }
  pumice::Result<pumice::PackedWeight> expert_matrix(std::span<const pumice::WeightId> weights,
                                                     bool alternating) override {
    return store_.matrix(views(weights), alternating, pumice::WeightRole::expert);
  }
  pumice::Result<pumice::BufferRef> vector(std::span<const pumice::WeightId> weights,
                                           bool alternating) override {
    return store_.vector(views(weights), alternating);
  }
  pumice::Result<pumice::BufferRef> constants(const std::string& key,
                                              std::span<const float> values) override {
    return store_.constants(key, values);
  }
  pumice::CacheRef cache(uint32_t layer) override { return caches_[layer]; }
  void place_cache(uint32_t layer, const pumice::CacheRef& where) { caches_[layer] = where; }
  pumice::StateRef state(uint32_t index) override { return states_[index]; }
  void place_state(uint32_t index, const pumice::StateRef& where) { states_[index] = where; }
  pumice::BufferRef step() const override { return step_; }
  uint32_t context() const override { return 0; }
  const pumice::StepLayout& step_layout() const override { return step_layout_; }
  void set_step_layout(const pumice::StepLayout& layout) { step_layout_ = layout; }
  pumice::BufferRef sampling() const override { return {}; }
  pumice::BufferRef counters() override {
    return TestGpu::get().upload(std::vector<uint32_t>(pumice::StepLayout::counters));
  }
  pumice::BufferRef temporary(uint64_t bytes) override {
    return TestGpu::get().upload(std::vector<float>(bytes / 4, not_a_number));
  }
  void emit(pumice::Dispatch dispatch) override { dispatches_.push_back(std::move(dispatch)); }

private:
  static pumice::Capabilities capabilities(uint64_t range_limit) {
    pumice::Capabilities device = TestGpu::get().device()->capabilities();
    device.max_storage_range_bytes = std::min(device.max_storage_range_bytes, range_limit);
    return device;
  }

  std::vector<pumice::WeightView> views(std::span<const pumice::WeightId> weights) const {
    std::vector<pumice::WeightView> result;
    for (pumice::WeightId id : weights) result.push_back(graph_.weight(id).view);
    return result;
  }

  void upload() {
    using namespace pumice;
    std::vector<std::vector<std::byte>> parts;
    for (const WeightStore::Allocation& each : store_.allocations()) parts.emplace_back(each.bytes);
    for (const WeightStore::Item& item : store_.items()) {
      const std::span<std::byte> payload =
          std::span(parts[item.payload.allocation]).subspan(item.payload.offset);
      const std::span<const std::byte> values = std::as_bytes(std::span(item.values));
      std::copy(values.begin(), values.end(), payload.begin());
      const std::span<std::byte> scales =
          std::span(parts[item.scales.allocation]).subspan(item.scales.offset);
      const uint64_t payload_bytes = item.format.tile_payload_bytes(),
                     scale_bytes = item.format.tile_scale_bytes();
      for (size_t i = 0; i < item.tiles.size(); ++i) {
        pack_tile(item.format, item.tiles[i], payload.subspan(i * payload_bytes, payload_bytes),
                  scales.subspan(i * scale_bytes, scale_bytes));
      }
    }
    std::vector<BufferRef> buffers;
    for (const std::vector<std::byte>& part : parts) buffers.push_back(TestGpu::get().upload(part));
    const auto settle = [&](BufferRef& ref) {
      if (ref.space == Space::weights)
        ref = {Space::scratch, buffers[ref.allocation].allocation, ref.offset, ref.bytes};
    };
    for (Dispatch& dispatch : dispatches_) {
      for (Dispatch::Binding& binding : dispatch.bindings) settle(binding.buffer);
      for (Dispatch::Address& address : dispatch.addresses) settle(address.buffer);
    }
  }

  pumice::DeviceProfile profile_;
  const pumice::Graph& graph_;
  pumice::BufferRef step_;
  pumice::StepLayout step_layout_;
  pumice::WeightStore store_;
  std::map<pumice::TensorId, pumice::ActivationRef> tensors_;
  std::map<uint32_t, pumice::CacheRef> caches_;
  std::map<uint32_t, pumice::StateRef> states_;
  std::vector<pumice::Dispatch> dispatches_;
};
