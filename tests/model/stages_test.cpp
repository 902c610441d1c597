// Decoders cut into stages give the same bits as in one piece, wherever they are cut, and say what goes
// wrong.
#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "model/upstream.h"
#include "stage/local_stages.h"
#include "stage/memory_hop.h"
#include "stage/split.h"
#include "step/batch_groups.h"
#include "support/fixtures.h"
#include "support/model.h"
#include "support/paths.h"

using namespace pumice;

namespace {

using Layers = std::vector<uint32_t>;

std::shared_ptr<const Model> load_stages(const std::filesystem::path& path, const Layers& layers,
                                         const MakeHop& make_hop = {}) {
  const std::vector<DeviceContext> contexts(layers.size(), test_context());
  auto model = load_in_stages(path, contexts, layers, {}, {}, make_hop);
  if (!model.ok()) FAIL(model.error().text());
  return *model;
}

Error refusal(const std::filesystem::path& path, const Layers& layers) {
  const std::vector<DeviceContext> contexts(layers.size(), test_context());
  const auto model = load_in_stages(path, contexts, layers);
  REQUIRE(!model.ok());
  return model.error();
}

// All ways to cut a model into two stages, and one into as many as it can be cut into.
std::vector<Layers> splits(const ModelShape& shape) {
  const auto count = static_cast<uint32_t>(shape.layers.size());
  std::vector<Layers> all;
  Layers each;
  uint32_t first = 0;
  for (uint32_t cut = 1; cut < count && cut <= shape.last_cut; ++cut) {
    all.push_back({cut, count - cut});
    each.push_back(cut - first);
    first = cut;
  }
  each.push_back(count - first);
  if (each.size() > 2) all.push_back(each);
  return all;
}

std::vector<uint32_t> some_tokens(uint32_t count, uint32_t vocabulary, uint32_t seed = 1) {
  std::vector<uint32_t> tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back((seed * 7919 + i * 131 + i * i * 17) % vocabulary);
  return tokens;
}

void check_cuts(const std::filesystem::path& path, const ModelShape& shape) {
  CAPTURE(path.string());
  const auto whole = load_model(path);
  const std::vector<uint32_t> tokens =
      some_tokens(std::min(23u, shape.context - 1), std::min(shape.vocabulary, 90u));
  ForwardOptions options;
  options.chunk = 7;
  options.beside = 1;
  const auto expected = forward(whole, tokens, options);
  const std::vector<uint32_t> prompt(tokens.begin(), tokens.begin() + 9);
  const std::vector<uint32_t> continued = continue_greedily(whole, prompt, 8, 4);
  for (const Layers& layers : splits(shape)) {
    CAPTURE(layers);
    const auto staged = load_stages(path, layers);
    CHECK(staged->upstream()->stages() == layers.size() - 1);
    CHECK(staged->identity() == whole->identity());
    CHECK(forward(staged, tokens, options) == expected); // to the bit
    CHECK(continue_greedily(staged, prompt, 8, 4) == continued);
  }
}

using Texts = std::vector<std::vector<uint32_t>>; // of the requests, in order

std::vector<SequenceRequest> some_requests() {
  SamplingParams warm;
  warm.temperature = 1;
  warm.seed = 3;
  SamplingParams penalised;
  penalised.repeat_penalty = 1.3f;
  return {{some_tokens(5, 300, 1), {}, 30, {}},
          {some_tokens(70, 300, 2), warm, 11, {}},
          {some_tokens(1, 300, 3), warm, 40, {}},
          {some_tokens(120, 300, 4), penalised, 25, {}},
          {some_tokens(33, 300, 5), warm, 1, {}}};
}

// The texts of sequences of which some wait for a place, and one of which joins later.
Result<Texts> run_batch(const std::shared_ptr<const Model>& model) {
  SessionOptions options;
  options.size.context = 200;
  options.size.chunk = 16;
  options.size.sequences = 3;
  PUMICE_TRY(const std::unique_ptr<BatchGroups> batch, BatchGroups::create(model, options));
  Texts texts;
  std::map<uint32_t, size_t> places; // of the sequences, in `texts`
  const auto add = [&](const SequenceRequest& request) -> Status {
    PUMICE_TRY(const uint32_t id, batch->add(request));
    places[id] = texts.size();
    texts.emplace_back();
    return {};
  };
  const auto step = [&]() -> Status {
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch->step());
    for (const BatchToken& token : tokens) texts[places.at(token.sequence)].push_back(token.token);
    return {};
  };
  std::vector<SequenceRequest> requests = some_requests();
  const SequenceRequest late = requests.back();
  requests.pop_back();
  for (const SequenceRequest& request : requests) PUMICE_CHECK(add(request));
  for (int i = 0; i < 9; ++i) PUMICE_CHECK(step());
  PUMICE_CHECK(add(late));
  while (batch->sequences()) PUMICE_CHECK(step());
  return texts;
}

Texts texts_of(const std::shared_ptr<const Model>& model) {
  Result<Texts> texts = run_batch(model);
  if (!texts.ok()) FAIL(texts.error().text());
  return *std::move(texts);
}

// Delivers late, each message by another time, and ends with an error after so many messages.
class UnreliableHop : public MemoryHop {
public:
  UnreliableHop(uint32_t seed, uint64_t messages) : random_(seed), left_(messages) {}

  Result<std::span<const std::byte>> receive() override {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
    if (left_-- == 0) close({Code::io, "the link to the test is cut"});
    return MemoryHop::receive();
  }

private:
  std::minstd_rand random_;
  uint64_t left_;
};

} // namespace

FIXTURE_TEST_CASE("a decoder in stages gives the same bits wherever it is cut") {
  size_t models = 0;
  for (const std::string& name : fixtures().models()) {
    const auto folder = fixtures().model(name);
    const auto file = ModelFile::open(folder);
    if (!file.ok()) continue;
    const auto definition = open_model_definition(*file);
    if (!definition.ok() || !check_stages(name, (*definition)->shape()).ok()) continue;
    ++models;
    check_cuts(folder, (*definition)->shape());
    if (std::filesystem::exists(folder / "model.gguf"))
      check_cuts(folder / "model.gguf", (*definition)->shape());
  }
  CHECK(models >= 10);
}

TEST_CASE("the hidden states and the attention weights of all stages can be read") {
  const auto path = fixtures().model("llama-gqa");
  const auto whole = load_model(path);
  const auto layers = static_cast<uint32_t>(whole->shape().layers.size());
  REQUIRE(layers >= 2);
  ForwardOptions options;
  for (uint32_t i = 0; i <= layers; ++i) options.readable.push_back("hidden_states." + std::to_string(i));
  options.readable.push_back("attentions.0");
  const std::vector<uint32_t> tokens = some_tokens(19, 90);
  options.chunk = 8;
  const auto expected = forward(whole, tokens, options);
  CHECK(forward(load_stages(path, {layers - 1, 1}), tokens, options) == expected);
  CHECK(forward(load_stages(path, Layers(layers, 1)), tokens, options) == expected);
}

TEST_CASE("sequences that join and leave a batch in stages give the same tokens") {
  const auto path = stories_model();
  const Texts whole = texts_of(load_model(path));
  for (const Layers& layers : {Layers{2, 3}, Layers{1, 1, 1, 1, 1}}) {
    CAPTURE(layers);
    CHECK(texts_of(load_stages(path, layers)) == whole);
  }
}

TEST_CASE("hops that deliver late change nothing") {
  const auto path = stories_model();
  const Texts whole = texts_of(load_model(path));
  const auto late = [](uint32_t from) { return std::make_unique<UnreliableHop>(from, UINT64_MAX); };
  CHECK(texts_of(load_stages(path, {2, 1, 2}, late)) == whole);
}

TEST_CASE("a hop that breaks ends all stages with its error") {
  for (uint32_t broken : {0u, 1u, 2u}) {
    for (uint64_t messages : {0u, 1u, 2u, 7u, 20u}) {
      CAPTURE(broken);
      CAPTURE(messages);
      const auto make = [&](uint32_t from) -> std::unique_ptr<Hop> {
        return std::make_unique<UnreliableHop>(from, from == broken ? messages : UINT64_MAX);
      };
      const auto start = std::chrono::steady_clock::now();
      {
        const auto staged = run_batch(load_stages(stories_model(), {2, 1, 2}, make));
        REQUIRE(!staged.ok());
        const std::string text = staged.error().text();
        CAPTURE(text);
        CHECK(text.find("the link to the test is cut") != std::string::npos);
      }
      CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
    }
  }
}

TEST_CASE("what cannot be cut is refused with the reason") {
  CHECK(refusal(fixtures().model("llama-gqa"), {1, 77}).text().find("stages of 1, 77 layers do not fit") !=
        std::string::npos);
  const Error encoder = refusal(fixtures().model("t5"), {1, 1});
  CHECK(encoder.code == Code::unsupported);
  CHECK(encoder.text().find("only models that are a decoder") != std::string::npos);

  const auto gemma = fixtures().model("gemma4");
  const ModelShape shape = load_model(gemma)->shape();
  const auto layers = static_cast<uint32_t>(shape.layers.size());
  REQUIRE(shape.last_cut + 1 < layers);
  const Error shared = refusal(gemma, {shape.last_cut + 1, layers - shape.last_cut - 1});
  CHECK(shared.code == Code::unsupported);
  CHECK(shared.text().find("use the keys and values of layer") != std::string::npos);
}

TEST_CASE("a model is cut where the goal asks for it") {
  const auto device = [](double seconds, uint64_t available) {
    DeviceCosts costs;
    costs.layer = {{seconds, 10 * seconds}, 100};
    costs.first = costs.last = costs.whole = {{seconds, seconds}, 50};
    costs.available = available;
    return costs;
  };
  const std::vector<DeviceCosts> unequal = {device(1, 10000), device(3, 3000)};
  const auto layers = [&](SplitGoal goal, uint32_t last_cut = UINT32_MAX) {
    const auto plan = plan_split(unequal, 12, last_cut, {}, goal);
    if (!plan.ok()) FAIL(plan.error().text());
    return plan->layers;
  };
  CHECK(layers(SplitGoal::decode) == Layers{11, 1});
  CHECK(layers(SplitGoal::prefill) == Layers{9, 3}); // three times as fast, three times as many
  CHECK(layers(SplitGoal::memory) == Layers{10, 2});
  CHECK(layers(SplitGoal::prefill, 5) == Layers{5, 7});

  const auto plan = expected_of(unequal, Layers{9, 3}, {0.5, 0.5});
  CHECK(plan.sequence.decode == doctest::Approx(9 + 1 + 9 + 3 + 1));
  CHECK(plan.slowest.prefill == doctest::Approx(93.5));
  CHECK(plan.stages[1].bytes == 350);
  const std::vector<DeviceCosts> small = {device(1, 500), device(1, 500)};
  CHECK(plan_split(small, 12, UINT32_MAX, {}, SplitGoal::memory).error().code == Code::out_of_memory);
}

TEST_CASE("a session in stages says what it cannot do") {
  SessionOptions options;
  options.size.context = 64;
  auto session = Session::create(load_stages(stories_model(), {2, 3}), options);
  REQUIRE(session.ok());
  REQUIRE((*session)->prefill(some_tokens(5, 300), {}).ok());
  const Status saved = (*session)->save([](std::span<const std::byte>) { return Status(); });
  REQUIRE(!saved.ok());
  CHECK(saved.error().text().find("a model in stages cannot be saved") != std::string::npos);
  REQUIRE((*session)->begin({some_tokens(5, 300), true, 4, {}}).ok());
  const auto slice = (*session)->advance(1e-3, {});
  REQUIRE(!slice.ok());
  CHECK(slice.error().code == Code::unsupported);
}
