// Tokens that a model's own layer guesses at, which was trained to predict further ones.
#include "step/batch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>

#include "io/formats/safetensors.h"
#include "support/command/messages.h"
#include "support/files/converted.h"
#include "support/files/fixtures.h"
#include "support/files/prediction_folder.h"
#include "support/files/temporary_folder.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"

using namespace pumice;

namespace {

struct Pair {
  std::shared_ptr<const Model> model, layer;
};

// The kernels of one size of step, so that texts with and without guesses are the same bits.
Pair load_pair(const std::filesystem::path& path) {
  LoadOptions layer;
  layer.tower = Tower::prediction;
  const DeviceContext context = one_kernel_context(test_context());
  return {require(Model::load(path, context)), require(Model::load(path, context, {}, layer))};
}

SessionOptions options_for(const Pair& pair, uint32_t drafts, uint32_t sequences = 1) {
  SessionOptions options;
  options.size.context = 256;
  options.size.chunk = 16;
  options.size.sequences = sequences;
  options.size.drafts = drafts;
  options.always_draft = drafts > 0;
  if (drafts > 0) options.draft_model = pair.layer;
  return options;
}

std::vector<SequenceRequest> some_requests() {
  std::vector<SequenceRequest> requests;
  for (uint32_t i = 0; i < 3; ++i) {
    SequenceRequest request;
    for (uint32_t at = 0; at < 5 + 17 * i; ++at) request.prompt.push_back((at * 37 + i * 91) % 311 + 4);
    request.max_tokens = 200 - 20 * i;
    if (i == 1) {
      request.sampling.temperature = 0.8f;
      request.sampling.seed = 7;
    } else {
      request.sampling.temperature = 0;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::map<uint32_t, std::vector<uint32_t>> texts(Batch& batch, const std::vector<SequenceRequest>& requests) {
  std::map<uint32_t, std::vector<uint32_t>> all;
  for (const SequenceRequest& request : requests) (void)require(batch.add(request));
  while (batch.sequences()) {
    for (const BatchToken& token : require(batch.step())) all[token.sequence].push_back(token.token);
  }
  return all;
}

std::vector<float> floats(const SafetensorsFile& file, const char* name) {
  return require(SafetensorsFile::floats(*file.find(name)));
}

std::vector<uint32_t> integers(const SafetensorsFile& file, const char* name) {
  const auto values = require(SafetensorsFile::integers(*file.find(name)));
  return {values.begin(), values.end()};
}

// In the reference's words: a row for each token but the first.
void check_logits(const Pair& pair, const std::vector<uint32_t>& ids, const SafetensorsFile& expected) {
  RunnerOptions options;
  options.size.cache = CacheType::f32;
  options.size.context = 64;
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {"logits", "hidden_states.0"};
  const auto runner = require(Runner::create(pair.layer, options));
  const std::vector<float> hidden = floats(expected, "hidden_states");
  std::vector<StepToken> rows;
  for (uint32_t at = 1; at < ids.size(); ++at) rows.push_back({ids[at], at, 0, 1, true});
  const auto count = static_cast<uint32_t>(rows.size());
  REQUIRE(runner->write_step(rows).ok());
  for (uint32_t row = 0; row < count; ++row)
    REQUIRE(runner->write_input(count, row, std::span(hidden).subspan(row * 64, 64)).ok());
  REQUIRE(runner->submit(count).ok());
  CHECK(relative_rms(require(runner->read("logits", count)), floats(expected, "logits")) < 1e-4);
  CHECK(relative_rms(require(runner->read("hidden_states.0", count)), floats(expected, "given")) < 1e-4);
}

// By what the model itself gives, in parts.
void check_drafts(const Pair& pair, const std::vector<uint32_t>& ids, const SafetensorsFile& expected) {
  SessionSize size;
  size.context = 64;
  size.chunk = 4;
  size.cache = CacheType::f32;
  const auto drafter = require(LayerDrafter::create(pair.layer, *pair.model, size));
  ForwardOptions options;
  options.readable = {LayerDrafter::hidden_name(*pair.model)};
  const std::vector<float> given = forward(pair.model, ids, options)[options.readable[0]];
  for (uint32_t at = 0; at + 1 < ids.size();) {
    const uint32_t count = std::min<uint32_t>(at % 3 ? 7 : 2, static_cast<uint32_t>(ids.size()) - 1 - at);
    REQUIRE(drafter->follow(0, ids, at, std::span(given).subspan(at * 64, count * 64)).ok());
    at += count;
  }
  SamplingParams greedy;
  greedy.temperature = 0;
  const std::array texts = {Drafter::Text{ids, &greedy, 4, 0}};
  CHECK(require(drafter->draft(texts))[0] == integers(expected, "draft_ids"));
}

} // namespace

TEST_CASE("a layer that predicts further tokens gives what the reference's does, and guesses the same") {
  for (const std::string name : {"glm4-moe", "deepseek-v3", "qwen3-next", "qwen3-5"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    write_random_prediction(folder.path(), name);
    const auto expected =
        require(SafetensorsFile::open(fixtures().folder() / "prediction" / (name + ".expected.safetensors")));
    const std::vector<uint32_t> ids = integers(expected, "input_ids");
    const Pair pair = load_pair(folder.path());
    check_logits(pair, ids, expected);
    check_drafts(pair, ids, expected);
    if (name == "deepseek-v3") continue; // llama.cpp has it of the others
    const std::filesystem::path gguf = folder.path() / "model.gguf";
    (void)convert_to(gguf, folder.path(), TensorType::f32);
    check_logits(load_pair(gguf), ids, expected);
  }
}

TEST_CASE("texts whose tokens the model's own layer guesses at stay the same" * doctest::test_suite("rest")) {
  const std::vector<SequenceRequest> requests = some_requests();
  for (const std::string name : {"parrot", "qwen3-5", "qwen3-next", "glm4-moe", "deepseek-v3"}) {
    if (!takes(name == "parrot" || name == "qwen3-5")) continue; // the others in a long run
    CAPTURE(name);
    const TemporaryFolder folder;
    if (name == "parrot") {
      write_parrot_prediction(folder.path());
    } else {
      write_random_prediction(folder.path(), name);
    }
    const Pair pair = load_pair(folder.path());
    const auto alone = require(Batch::create(pair.model, options_for(pair, 0)));
    const auto expected = texts(*alone, requests);
    for (const uint32_t sequences : {1u, 3u}) {
      const auto batch = require(Batch::create(pair.model, options_for(pair, 4, sequences)));
      CHECK(texts(*batch, requests) == expected);
      const uint64_t guessed = batch->drafts().guessed, held = batch->drafts().held;
      CAPTURE(guessed);
      CAPTURE(held);
      CHECK(guessed > 200);
      CHECK(held > (name == "parrot" ? guessed / 2 : 0));
    }
    // Without being told to, it guesses where that pays.
    SessionOptions options = options_for(pair, 4, 2);
    options.always_draft = false;
    CHECK(texts(*require(Batch::create(pair.model, options)), requests) == expected);
  }
}

TEST_CASE("a prediction layer is one of its own model") {
  const TemporaryFolder folder;
  write_parrot_prediction(folder.path());
  const Pair pair = load_pair(folder.path());
  SessionOptions options = options_for(pair, 4);
  CHECK(says(Batch::create(load_model(fixtures().model("glm4-moe")), options), {"own tokens"}) == "");
  CHECK(says(Batch::create(pair.layer, options_for(pair, 0)), {"load the model itself"}) == "");
  LoadOptions layer;
  layer.tower = Tower::prediction;
  const auto none = Model::load(fixtures().model("glm4-moe"), test_context(), {}, layer);
  CHECK(says(none, {"model.layers.3.eh_proj.weight", "further tokens"}) == "");
  const auto other = Model::load(fixtures().model("llama-gqa"), test_context(), {}, layer);
  CHECK(says(other, {"further tokens"}) == "");
}
