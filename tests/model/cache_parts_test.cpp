// Keys that pass what a kernel reaches at once lie in parts, and nothing changes.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

#include "kernel/probe/open_device.h"
#include "step/cache/snapshot.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/require.h"
#include "support/session.h"

using namespace pumice;

namespace {

VulkanTable real;
uint64_t range = UINT64_MAX;

VKAPI_ATTR void VKAPI_CALL limited_bindings(VkDevice device, uint32_t count,
                                            const VkWriteDescriptorSet* writes, uint32_t copies,
                                            const VkCopyDescriptorSet* copied) {
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = 0; j < writes[i].descriptorCount && writes[i].pBufferInfo; ++j)
      CHECK(writes[i].pBufferInfo[j].range <= range);
  }
  real.vkUpdateDescriptorSets(device, count, writes, copies, copied);
}

// The device that tests run on, with kernels that reach `bytes` at once: less than Vulkan requires, and so
// less than opening a device needs. The limit is lowered once it is open.
DeviceContext reaching(uint64_t bytes) {
  const auto open = [](const InstanceOptions& options) {
    const auto instance = require(Instance::create(options));
    return require(open_device(instance, require(instance->choose("")), {}));
  };
  static const DeviceContext plain = open({}); // without the layers that the tests' own device has
  real = plain.device->table();
  range = UINT64_MAX;
  InstanceOptions options;
  options.table.vkUpdateDescriptorSets = limited_bindings;
  DeviceContext context = open(options);
  const_cast<Capabilities&>(context.device->capabilities()).max_storage_range_bytes = bytes;
  context.profile.range_bytes = bytes;
  range = bytes;
  return context;
}

// A fixture that says it was made for 4,096 positions.
struct LongFixture {
  explicit LongFixture(const std::string& name) {
    const std::filesystem::path source = fixtures().model(name);
    std::filesystem::copy_file(source / "model.safetensors", folder.path() / "model.safetensors");
    std::ifstream stream(source / "config.json");
    nlohmann::json config = nlohmann::json::parse(stream);
    config["max_position_embeddings"] = 4096;
    folder.write("config.json", std::string_view(config.dump()));
    whole = load_model(folder.path());
  }
  // Bytes of a part of the smallest size in each layer's cache of 32-bit floats.
  uint64_t part_bytes() const {
    uint64_t most = 0;
    for (const LayerCache& layer : whole->shape().layers) {
      SessionSize size;
      size.context = cache_part_positions;
      size.cache = CacheType::f32;
      most = std::max(most, cache_layout({layer.kv_heads, layer.head_dim, 0}, size).key_bytes());
    }
    return most;
  }

  TemporaryFolder folder;
  std::shared_ptr<const Model> whole;
};

std::vector<uint32_t> some_tokens(uint32_t count, uint32_t vocabulary) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < count; ++i) ids.push_back((i * i * 31 + i * 7 + 5) % vocabulary);
  return ids;
}

std::unique_ptr<Session> make_session(const std::shared_ptr<const Model>& model, uint32_t context) {
  SessionOptions options;
  options.size.context = context;
  options.size.chunk = 16;
  options.size.cache = CacheType::f32;
  return require(Session::create(model, options));
}

uint32_t most_parts(Session& session) {
  uint32_t most = 0;
  for (const CacheRef& cache : session.runner().caches()) most = std::max(most, cache.layout.parts());
  return most;
}

} // namespace

namespace {

// `alone`, and beside others: of which the positions are divided, or the sequences.
struct Ways {
  uint32_t tokens = 1300;
  bool alone = true, by_positions = true, by_sequences = true;
};

void check_model(const std::string& name, const std::vector<uint32_t>& chunks, const Ways& ways = {}) {
  CAPTURE(name);
  const LongFixture fixture(name);
  const std::vector<uint32_t> ids = some_tokens(ways.tokens, fixture.whole->shape().vocabulary);
  const uint32_t parts_of_all = (ways.tokens + cache_part_positions - 1) / cache_part_positions;
  ForwardOptions options;
  options.readable = {"logits"};
  options.chunk = 20;
  const auto expected = forward(fixture.whole, ids, options);
  {
    const DeviceContext context = reaching((parts_of_all - 1) * fixture.part_bytes());
    const auto parts = require(Model::load(fixture.folder.path(), context));
    for (uint32_t chunk : chunks) {
      options.chunk = chunk;
      if (ways.alone) CHECK(forward(parts, ids, options) == expected);
    }
    options.beside = 2;
    if (ways.by_positions) CHECK(forward(parts, ids, options) == expected);
  }
  if (!ways.by_sequences) return;
  // Each of three sequences fits, all of them do not.
  const DeviceContext wider = reaching(parts_of_all * 5 / 2 * fixture.part_bytes());
  const auto batch = require(Model::load(fixture.folder.path(), wider));
  CHECK(forward(batch, ids, options) == expected);
}

} // namespace

// Grouped heads; latents that are keys and values. A long run has other kinds of caches, and each in all
// ways.
TEST_CASE("models whose keys lie in parts give the bits that they give without") {
  check_model("llama-gqa", {20}, {.alone = false});
  check_model("deepseek-v2", {20}, {.by_positions = false, .by_sequences = false});
}

// Windows beside whole layers; sinks; heads of two sizes and shared caches; chunks.
TEST_CASE("more models whose keys lie in parts" * doctest::test_suite("long")) {
  for (const char* name : {"llama-gqa", "gemma3", "deepseek-v2", "gpt-oss", "gemma4", "llama4"})
    check_model(name, {20, 7});
}

TEST_CASE("sessions in parts are saved, restored and copied") {
  const LongFixture fixture("llama-gqa");
  const std::vector<uint32_t> prompt = some_tokens(1100, fixture.whole->shape().vocabulary);
  const DeviceContext context = reaching(5 * fixture.part_bytes());
  const auto parts = require(Model::load(fixture.folder.path(), context));
  auto whole = make_session(fixture.whole, 1300);
  REQUIRE(whole->prefill(prompt, {}).ok());
  take(*whole, 60);
  auto divided = make_session(parts, 1300);
  REQUIRE(most_parts(*whole) == 1);
  REQUIRE(most_parts(*divided) == 2);
  REQUIRE(divided->prefill(prompt, {}).ok());
  take(*divided, 60);
  const TemporaryFolder folder;
  const auto path = folder.path() / "whole", other = folder.path() / "parts";
  REQUIRE(whole->save(path).ok());
  REQUIRE(divided->save(other).ok());
  const std::vector<uint32_t> expected = take(*whole, 90);
  CHECK(take(*divided, 90) == expected);
  for (uint32_t room : {1300u, 1700u, 3000u}) {
    auto restored = make_session(parts, room);
    REQUIRE(restored->restore(path).ok());
    CHECK(take(*restored, 90) == expected);
  }
  auto back = make_session(fixture.whole, 1300);
  REQUIRE(back->restore(other).ok());
  CHECK(take(*back, 90) == expected);

  // From two parts to one, and back to others.
  const DeviceContext wider = reaching(6 * fixture.part_bytes());
  const auto model = require(Model::load(fixture.folder.path(), wider));
  auto small = make_session(model, 1300), large = make_session(model, 2000),
       third = make_session(model, 1300);
  REQUIRE(most_parts(*small) == 1);
  REQUIRE(most_parts(*large) == 2);
  REQUIRE(small->restore(path).ok());
  const uint32_t cached = 1159;
  REQUIRE(require(copy_caches({small->runner(), 0}, {large->runner(), 0}, cached, cached)));
  REQUIRE(require(copy_caches({large->runner(), 0}, {third->runner(), 0}, cached, cached)));
  const auto contents = [&](Session& session) {
    const auto file = folder.path() / "copy";
    Snapshot snapshot;
    snapshot.cached = snapshot.written_end = cached;
    REQUIRE(save_snapshot(file, session.runner(), 0, snapshot).ok());
    std::ifstream stream(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  };
  CHECK(contents(*third) == contents(*small));
}
