// Caches of layers with a sliding window: rings that forget what the window has passed.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>

#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/session.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

std::vector<uint32_t> some_tokens(uint32_t count, uint32_t vocabulary, uint32_t seed = 0) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < count; ++i) ids.push_back((i * i * 31 + i * 7 + seed * 13 + 5) % vocabulary);
  return ids;
}

std::unique_ptr<Session> make_session(const std::shared_ptr<const Model>& model, uint32_t chunk) {
  SessionOptions options;
  options.size.chunk = chunk;
  options.size.cache = CacheType::f32;
  auto session = Session::create(model, options);
  if (!session.ok()) FAIL(session.error().text());
  return *std::move(session);
}

bool is_ring(const std::shared_ptr<const Model>& model, uint32_t chunk, uint32_t context) {
  SessionSize size;
  size.context = context;
  size.chunk = chunk;
  for (const LayerCache& layer : model->shape().layers) {
    if (cache_layout(layer, size).capacity < context) return true;
  }
  return false;
}

constexpr const char* folders[] = {"mistral-swa", "gemma2", "gemma3", "gemma4"};

} // namespace

// Each model with steps of some length; a long run has each with each.
FIXTURE_TEST_CASE("a ring gives the bits that a whole cache gives") {
  size_t turn = 0;
  for (const char* name : folders) {
    CAPTURE(name);
    const auto model = load_one_kernel_model(fixtures().model(name));
    const std::vector<uint32_t> ids = some_tokens(200, model->shape().vocabulary);
    REQUIRE(!is_ring(model, 200, 200));
    const std::vector<float> whole = forward(model, ids, 200);
    for (uint32_t chunk : turn_of(std::array{1u, 7u, 60u}, turn++)) {
      CAPTURE(chunk);
      REQUIRE(is_ring(model, chunk, 200));
      CHECK(forward(model, ids, chunk) == whole);
    }
  }
}

// A window in every layer, and one beside whole layers; a long run has all models.
FIXTURE_TEST_CASE("prefixes and saved sessions with rings change no bit") {
  for (const char* name : turns_of(folders, 2)) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    const std::vector<uint32_t> first = some_tokens(120, model->shape().vocabulary);
    auto session = make_session(model, 4);
    REQUIRE(is_ring(model, 4, session->size().context));
    REQUIRE(session->set_prompt(first, {}).ok());
    take(*session, 20);
    // Far back the ring has forgotten; near the end it has not.
    for (const auto& [kept, reused] : {std::pair(30u, false), {135u, true}}) {
      CAPTURE(kept);
      std::vector<uint32_t> next(session->tokens().begin(), session->tokens().begin() + kept);
      const std::vector<uint32_t> more = some_tokens(9, model->shape().vocabulary, kept);
      next.insert(next.end(), more.begin(), more.end());
      auto fresh = make_session(model, 4);
      REQUIRE(fresh->set_prompt(next, {}).ok());
      const std::vector<uint32_t> expected = take(*fresh, 20);
      REQUIRE(session->set_prompt(next, {}).ok());
      CHECK((session->reused() > 0) == reused);
      CHECK(take(*session, 20) == expected);

      REQUIRE(session->set_prompt(first, {}).ok()); // as before
      take(*session, 20);
    }
    const TemporaryFolder folder;
    const auto path = folder.path() / "state";
    REQUIRE(session->save(path).ok());
    const std::vector<uint32_t> expected = take(*session, 30);
    auto restored = make_session(model, 4);
    const Status loaded = restored->restore(path);
    if (!loaded.ok()) FAIL(loaded.error().text());
    CHECK(take(*restored, 30) == expected);
  }
}

FIXTURE_TEST_CASE("a window of 7 in a context of 4,096 takes only the memory of the window") {
  const auto source = fixtures().model("mistral-swa");
  const TemporaryFolder folder;
  std::filesystem::copy_file(source / "model.safetensors", folder.path() / "model.safetensors");
  std::ifstream stream(source / "config.json");
  nlohmann::json config = nlohmann::json::parse(stream);
  config["max_position_embeddings"] = 4096;
  const auto bytes = [&](const nlohmann::json& window) {
    config["sliding_window"] = window;
    folder.write("config.json", std::string_view(config.dump()));
    const auto model = load_model(folder.path());
    SessionSize size;
    size.context = 4096;
    size.chunk = 16;
    const SessionMemory memory = lay_out_memory(model->shape(), model->context(), size);
    uint64_t sum = 0;
    for (uint64_t part : memory.cache_allocation_bytes) sum += part;
    auto session = make_session(model, 16);
    CHECK(session->size().context == 4096);
    REQUIRE(session->prefill(some_tokens(500, 320), {}).ok());
    take(*session, 10);
    return sum;
  };
  const uint64_t with_window = bytes(7), whole = bytes(nullptr);
  CHECK(with_window * 50 < whole);
}
