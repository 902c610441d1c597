// Models whose rows attend to the positions alone that an indexer chooses.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "generate/session.h"
#include "step/batch_groups.h"
#include "support/command/messages.h"
#include "support/difference.h"
#include "support/files/fixtures.h"
#include "support/files/random_model.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/session.h"

using namespace pumice;

namespace {

constexpr const char* fixture_names[] = {"deepseek-v32", "glm-moe-dsa"};

std::vector<uint32_t> some_tokens(uint32_t count, uint32_t seed = 0) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < count; ++i) ids.push_back(3 + (i * i * 31 + i * 7 + seed * 13) % 240);
  return ids;
}

std::unique_ptr<Session> make_session(const std::shared_ptr<const Model>& model) {
  SessionOptions options;
  options.size.chunk = 8;
  options.size.cache = CacheType::f32;
  return require(Session::create(model, options));
}

// Puts a fixture with another setting into a folder.
std::filesystem::path fixture_with(const TemporaryFolder& folder, const char* name, const char* field,
                                   const nlohmann::json& value) {
  const auto to = folder.path() / name;
  std::filesystem::copy(fixtures().model(name), to,
                        std::filesystem::copy_options::overwrite_existing |
                            std::filesystem::copy_options::recursive);
  nlohmann::json config = nlohmann::json::parse(std::ifstream(to / "config.json"));
  config[field] = value;
  std::ofstream(to / "config.json") << config;
  return to;
}

std::shared_ptr<const Model> load_choosing(const TemporaryFolder& folder, const char* name, uint32_t most) {
  return load_model(fixture_with(folder, name, "index_topk", most));
}

} // namespace

TEST_CASE("rows that see no more positions than are chosen attend to all") {
  for (const char* name : fixture_names) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::vector<uint32_t> ids = some_tokens(40);
    const std::vector<float> all = forward(load_choosing(folder, name, 1000), ids, 40);
    const std::vector<float> some = forward(load_choosing(folder, name, 11), ids, 40);
    const size_t columns = all.size() / ids.size();
    CHECK(largest_difference(std::span(all).first(11 * columns), std::span(some).first(11 * columns)) < 1e-4);
    CHECK(largest_difference(all, some) > 1e-2);
  }
}

TEST_CASE("chosen positions do not depend on how a text is divided") {
  for (const char* name : fixture_names) {
    CAPTURE(name);
    const auto model = load_one_kernel_model(fixtures().model(name));
    const std::vector<uint32_t> ids = some_tokens(100);
    const std::vector<float> whole = forward(model, ids, 100);
    for (const uint32_t chunk : {1u, 7u}) CHECK(forward(model, ids, chunk) == whole);
    ForwardOptions beside;
    beside.chunk = 20;
    beside.beside = 2;
    CHECK(forward(model, ids, beside).at("logits") == whole);
  }
}

TEST_CASE("prefixes and saved sessions keep the indexer's keys") {
  for (const char* name : fixture_names) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto model = load_model(fixtures().model(name));
    auto session = make_session(model);
    REQUIRE(session->set_prompt(some_tokens(60), {}).ok());
    take(*session, 5);
    REQUIRE(session->save(folder.path() / "state").ok());
    const std::vector<uint32_t> expected = take(*session, 20);
    auto other = make_session(model);
    REQUIRE(other->restore(folder.path() / "state").ok());
    CHECK(take(*other, 20) == expected);

    std::vector<uint32_t> next = some_tokens(45);
    const std::vector<uint32_t> more = some_tokens(9, 3);
    next.insert(next.end(), more.begin(), more.end());
    REQUIRE(session->set_prompt(next, {}).ok());
    CHECK(session->reused() == 45);
    auto fresh = make_session(model);
    REQUIRE(fresh->set_prompt(next, {}).ok());
    CHECK(take(*session, 15) == take(*fresh, 15));
  }
}

TEST_CASE("texts in pages choose as they do alone") {
  for (const char* name : fixture_names) {
    CAPTURE(name);
    const auto model = load_model(fixtures().model(name));
    SessionOptions options;
    options.size.chunk = 24;
    options.size.sequences = 3;
    options.size.pages = 10;
    options.size.cache = CacheType::f32;
    const auto batch = require(BatchGroups::create(model, options));
    std::vector<std::vector<uint32_t>> prompts, texts(3);
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 3; ++i) {
      prompts.push_back(some_tokens(70 + 9 * i, i / 2)); // two begin alike
      ids.push_back(require(batch->add({prompts[i], {}, 12, {}})));
    }
    while (batch->sequences() > 0) {
      const std::span<const BatchToken> made = require(batch->step());
      for (const BatchToken& token : made)
        texts[static_cast<size_t>(std::ranges::find(ids, token.sequence) - ids.begin())].push_back(
            token.token);
    }
    for (uint32_t i = 0; i < 3; ++i) CHECK(texts[i] == continue_greedily(model, prompts[i], 12, 24));
  }
}

TEST_CASE("wrong settings of an indexer are named") {
  const auto refused = [](const char* name, const char* field, const nlohmann::json& value, const char* why) {
    const TemporaryFolder folder;
    const auto opened = OpenedModel::open(fixture_with(folder, name, field, value));
    CAPTURE(field);
    REQUIRE(!opened.ok());
    CAPTURE(opened.error().text());
    CHECK(opened.error().text().find(field) != std::string::npos);
    CHECK(opened.error().text().find(why) != std::string::npos);
  };
  refused("glm-moe-dsa", "indexer_types", {"shared", "full", "full"}, "first layer");
  refused("glm-moe-dsa", "indexer_types", {"full", "full"}, "each of the 3 layers");
  refused("glm-moe-dsa", "indexer_types", {"full", "half", "full"}, "'half'");
  refused("deepseek-v32", "index_head_dim", 4, "8 rotated dimensions");
  refused("deepseek-v32", "index_topk", 0, "1");
}
