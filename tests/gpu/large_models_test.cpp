// Models whose weights, tensors or contexts pass what 31 and 32 bits count, laid out without their memory:
// the files have holes where their zeros are, and nothing is allocated or computed.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

#include "generate/session.h"
#include "kernel/probe/open_device.h"
#include "shaders/attention/attention.params.h"
#include "shaders/embedding/embedding.params.h"
#include "shaders/matmul/matmul.params.h"
#include "step/cache/memory_needs.h"
#include "step/runner_layout.h"
#include "support/files/sparse_model.h"
#include "support/require.h"

using namespace pumice;
using nlohmann::json;

namespace {

constexpr uint64_t gibibyte = uint64_t{1} << 30;

// A device that says it reaches `range` bytes at once and allocates `allocation`.
uint64_t range = 0, allocation = 0;
VulkanTable real;

VKAPI_ATTR void VKAPI_CALL other_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* found) {
  real.vkGetPhysicalDeviceProperties2(device, found);
  found->properties.limits.maxStorageBufferRange = static_cast<uint32_t>(range);
  for (auto* next = static_cast<VkBaseOutStructure*>(found->pNext); next; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) continue;
    reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(next)->maxMemoryAllocationSize = allocation;
  }
}

DeviceContext open_with(uint64_t range_bytes, uint64_t allocation_bytes) {
  // Not destroyed: with its last instance the driver goes, and with it what the table points to.
  static const auto* plain = new std::shared_ptr<Instance>(require(Instance::create({})));
  real = (*plain)->table();
  range = range_bytes;
  allocation = allocation_bytes;
  InstanceOptions options;
  options.table.vkGetPhysicalDeviceProperties2 = other_properties;
  const auto instance = require(Instance::create(options));
  return require(open_device(instance, require(instance->choose("")), {}));
}

json llama(uint32_t hidden, uint32_t heads, uint32_t kv_heads, uint32_t vocabulary, uint32_t context) {
  return {{"model_type", "llama"},
          {"hidden_size", hidden},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"head_dim", 128},
          {"intermediate_size", 256},
          {"num_hidden_layers", 1},
          {"max_position_embeddings", context},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false},
          {"vocab_size", vocabulary}};
}

// Profiles of devices that this one is not: plans are all that is made for them.
std::vector<DeviceProfile> profiles(const DeviceContext& context) {
  DeviceProfile plain, subgroups;
  subgroups.subgroup = 32;
  subgroups.dot = true;
  for (DeviceProfile* each : {&plain, &subgroups}) each->range_bytes = context.profile.range_bytes;
  std::vector<DeviceProfile> all = {context.profile, plain, subgroups};
  for (DeviceProfile& each : all) each.speed = {1e18, 1e18}; // launches stay whole
  return all;
}

// Every launch is within the device's limits.
void check_limits(const Plan& plan, const Capabilities& device) {
  for (const PlannedDispatch& planned : plan.dispatches) {
    const Dispatch& dispatch = planned.dispatch;
    CAPTURE(dispatch.kernel);
    for (int axis = 0; axis < 3; ++axis) CHECK(dispatch.groups[axis] <= device.max_workgroups[axis]);
    for (const Dispatch::Binding& binding : dispatch.bindings) {
      CHECK(binding.buffer.bytes <= device.max_storage_range_bytes);
      CHECK(binding.buffer.offset % device.storage_offset_alignment == 0);
    }
  }
}

// The launches that take a part of a table each take all of it, in order.
template <class Params>
void check_parts(const Plan& plan, const std::string& kernel, const std::string& label, uint32_t tiles) {
  uint32_t next = 0;
  for (const PlannedDispatch& planned : plan.dispatches) {
    const Dispatch& dispatch = planned.dispatch;
    if (!dispatch.kernel.starts_with(kernel) || dispatch.label != label) continue;
    Params params;
    REQUIRE(dispatch.params.size() >= sizeof params);
    std::memcpy(&params, dispatch.params.data(), sizeof params);
    CHECK(params.first_tile == next);
    next += params.tiles;
  }
  CAPTURE(label);
  CHECK(next == tiles);
}

// No two places overlap, and each is in its allocation.
void check_places(const WeightStore& store) {
  std::map<uint32_t, std::vector<std::pair<uint64_t, uint64_t>>> taken; // by allocation: begin, end
  for (const WeightStore::Item& item : store.items()) {
    for (const BufferRef& ref : {item.payload, item.scales}) {
      if (ref.bytes) taken[ref.allocation].emplace_back(ref.offset, ref.offset + ref.bytes);
    }
  }
  for (auto& [number, ranges] : taken) {
    std::ranges::sort(ranges);
    for (size_t i = 1; i < ranges.size(); ++i) CHECK(ranges[i - 1].second <= ranges[i].first);
    CHECK(ranges.back().second <= store.allocations()[number].bytes);
  }
}

// A tile as the upload packs it.
std::vector<std::byte> packed(const PackedFormat& format, const TileSource& tile) {
  std::vector<std::byte> payload(format.tile_payload_bytes()), scales(format.tile_scale_bytes());
  pack_tile(format, tile, payload, scales);
  payload.insert(payload.end(), scales.begin(), scales.end());
  return payload;
}

// The tile with this row of a tensor is what a small tensor with the same eight rows gives.
void check_tile(const WeightStore& store, const std::string& name, uint64_t row,
                const std::vector<std::byte>& bytes) {
  CAPTURE(name);
  CAPTURE(row);
  size_t found = 0;
  for (const WeightStore::Item& item : store.items()) {
    for (const TileSource& tile : item.tiles) {
      if (!tile.weight || tile.weight->tensor->name != name || tile.first_row != row / 8 * 8) continue;
      ++found;
      std::vector<std::byte> eight(8 * bytes.size());
      std::ranges::copy(bytes, eight.begin() + static_cast<ptrdiff_t>(row % 8 * bytes.size()));
      const TensorView small = {name, tile.weight->type(), {8, tile.weight->columns}, eight};
      const WeightView view = WeightView::whole(small);
      CHECK(packed(item.format, tile) == packed(item.format, {&view, 0, 8}));
    }
  }
  CHECK(found == 1);
}

} // namespace

TEST_CASE("weights of 12 GB, with tensors of 4 and 8, are split, and read where the file has them") {
  constexpr uint32_t vocabulary = 256000, hidden = 8192;
  const std::string table = "model.embed_tokens.weight", head = "lm_head.weight";
  SparseModel files(llama(hidden, 64, 8, vocabulary, 256), {{head, "BF16"}});
  // Around 2, 4 and 6 GiB of the table, and around 2 GiB of the head.
  std::map<std::pair<std::string, uint64_t>, std::vector<std::byte>> rows;
  for (uint64_t row : {0, 65535, 65536, 131071, 131072, 196608, 255999}) {
    rows[{table, row}] = files.write_row(table, row);
    rows[{head, row}] = files.write_row(head, row);
  }
  for (const auto& [reach, most] :
       {std::pair{gibibyte / 8, 2 * gibibyte}, {4 * gibibyte - 1, 8 * gibibyte}}) {
    DeviceContext context = open_with(reach, most);
    const Capabilities& device = context.device->capabilities();
    REQUIRE(device.max_storage_range_bytes == reach);
    for (const DeviceProfile& profile : profiles(context)) {
      context.profile = profile;
      const std::shared_ptr<const Model> model = require(files.plan(context));
      WeightStore store(profile, device); // a plan's own has forgotten what is uploaded where
      for (const std::string& name : {table, head}) {
        const WeightView view = WeightView::whole(*model->file().find(name));
        require(store.matrix(std::span(&view, 1), false));
      }
      CHECK(store.bytes() == 6 * uint64_t{hidden} * vocabulary);
      check_places(store);
      for (const auto& [place, bytes] : rows) check_tile(store, place.first, place.second, bytes);
      SessionSize size;
      size.context = 256;
      const SessionRunners runners = require(usual_runners(*model, size));
      CHECK(require(memory_needs(*model, runners)).weights > store.bytes());
      for (const Plan& plan : require(lay_out_runner(*model, runners[0], nullptr)).plans) {
        check_limits(plan, device);
        check_parts<EmbeddingParams>(plan, "embedding.", "embedding", vocabulary / 8);
        check_parts<MatmulParams>(plan, "matmul", "logits", vocabulary / 8);
      }
    }
  }
}

TEST_CASE("a vocabulary with more tiles than a device has workgroups along an axis is divided") {
  constexpr uint32_t vocabulary = 600000, hidden = 32;
  const std::string head = "lm_head.weight";
  SparseModel files(llama(hidden, 2, 2, vocabulary, 64));
  DeviceContext context = open_with(4 * gibibyte - 1, 8 * gibibyte);
  const Capabilities& device = context.device->capabilities();
  for (const DeviceProfile& profile : profiles(context)) {
    context.profile = profile;
    const std::shared_ptr<const Model> model = require(files.plan(context));
    RunnerOptions options;
    options.size.context = 64;
    for (const Plan& plan : require(lay_out_runner(*model, options, nullptr)).plans) {
      check_limits(plan, device);
      check_parts<EmbeddingParams>(plan, "embedding.", "embedding", vocabulary / 8);
      check_parts<MatmulParams>(plan, "matmul", "logits", vocabulary / 8);
    }
  }
  // The last token is the only one whose weights are not zeros; they are positive, as are the norm's.
  files.write_numbers("model.norm.weight", 0, 1);
  files.write_numbers("model.embed_tokens.weight", 7, 1);
  files.write_numbers(head, vocabulary - 1, 1);
  const DeviceContext plain = open_with(device.max_storage_range_bytes, device.max_allocation_bytes);
  for (const char* variant : {"", "portable"}) {
    CAPTURE(variant);
    DeviceContext forced = plain;
    forced.profile.forced = variant;
    const auto model = require(Model::load(files.folder(), forced));
    SessionOptions session_options;
    session_options.size.context = 64;
    const auto session = require(Session::create(model, session_options));
    require(session->prefill(std::vector<uint32_t>{7}, {}));
    CHECK(require(session->next()) == vocabulary - 1);
  }
}

TEST_CASE("a model for a million positions runs with few, with the default and with all of them") {
  constexpr uint32_t positions = 1 << 20;
  const SparseModel grouped(llama(256, 8, 8, 64, positions));
  json latent = {{"model_type", "deepseek_v2"},
                 {"hidden_size", 128},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 4},
                 {"q_lora_rank", nullptr},
                 {"kv_lora_rank", 512},
                 {"qk_nope_head_dim", 128},
                 {"qk_rope_head_dim", 64},
                 {"v_head_dim", 128},
                 {"intermediate_size", 128},
                 {"moe_intermediate_size", 32},
                 {"n_routed_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"n_shared_experts", 1},
                 {"first_k_dense_replace", 1},
                 {"num_hidden_layers", 1},
                 {"max_position_embeddings", positions},
                 {"rms_norm_eps", 1e-6},
                 {"rope_theta", 10000.0},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", false},
                 {"vocab_size", 64}};
  const SparseModel compressed(latent);
  DeviceContext context = open_with(gibibyte / 8, 2 * gibibyte);
  const Capabilities& device = context.device->capabilities();
  for (const DeviceProfile& profile : profiles(context)) {
    context.profile = profile;
    for (const SparseModel* files : {&grouped, &compressed}) {
      const std::shared_ptr<const Model> model = require(files->plan(context));
      for (uint32_t asked : {512u, 0u, 131072u, positions}) {
        CAPTURE(asked);
        RunnerOptions options;
        options.size.context = asked;
        options.size.chunk = 8;
        const RunnerLayout layout = require(lay_out_runner(*model, options, nullptr));
        CHECK(layout.memory.size.context == (asked ? asked : 4096));
        const CacheRef& cache = layout.memory.caches[0];
        CHECK(cache.layout.capacity >= layout.memory.size.context);
        CHECK(cache.layout.capacity <
              layout.memory.size.context + cache.layout.parts() * cache_part_positions);
        CHECK(cache.layout.parts() == (cache.layout.key_bytes() + device.max_storage_range_bytes - 1) /
                                          device.max_storage_range_bytes);
        CHECK((cache.layout.parts() > 1) == (asked >= 131072));
        for (const Plan& plan : layout.plans) check_limits(plan, device);
      }
    }
  }
}

TEST_CASE(
    "a long context on a device that reaches 128 MiB at once divides what attention leaves of its spans") {
  constexpr uint32_t positions = 131072;
  const SparseModel files(llama(256, 16, 1, 64, positions));
  DeviceContext context = open_with(gibibyte / 8, 2 * gibibyte);
  for (const DeviceProfile& profile : profiles(context)) {
    context.profile = profile;
    const std::shared_ptr<const Model> model = require(files.plan(context));
    RunnerOptions options;
    options.size.context = positions;
    options.size.chunk = 48; // too few for a workgroup each to keep a device busy
    const RunnerLayout layout = require(lay_out_runner(*model, options, nullptr));
    for (const Plan& plan : layout.plans) {
      check_limits(plan, context.device->capabilities());
      const auto split = std::ranges::count_if(plan.dispatches, [](const PlannedDispatch& planned) {
        return planned.dispatch.kernel.starts_with("attention_portable.") &&
               planned.dispatch.constants[ATTENTION_SPLIT_ID] > 0;
      });
      CHECK(split == (profile.cpu ? 0 : plan.bucket.tokens == 48 ? 4 : plan.bucket.tokens == 1 ? 1 : 2));
    }
  }
}
