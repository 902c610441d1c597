// Decoders cut into stages give the same bits as in one piece, wherever they are cut, and say what goes
// wrong.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include <doctest/doctest.h>

#include "model/upstream.h"
#include "stage/local_stages.h"
#include "stage/memory_hop.h"
#include "stage/split.h"
#include "stage/stage_ring.h"
#include "step/batch_groups.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/stages.h"
#include "support/test_hop.h"

using namespace pumice;

namespace {

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

// A fixture that is a decoder alone; those with an encoder are in stages_encoder_decoder_test.cpp.
std::optional<OpenedModel> decoder_to_cut(const std::string& name) {
  auto model = OpenedModel::open(fixtures().model(name));
  if (!model.ok() || !check_stages(name, model->definition->shape()).ok()) return {};
  if (model->definition->shape().encoder) return {};
  return *std::move(model);
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

// Gives one message with another length.
class ShorteningHop : public MemoryHop {
public:
  // Cuts the end off the first step's message. `consistent`: its header tells the same.
  explicit ShorteningHop(bool consistent) : consistent_(consistent) {}

  Result<std::span<const std::byte>> receive() override {
    PUMICE_TRY(const std::span<const std::byte> message, MemoryHop::receive());
    MessageHeader header;
    std::memcpy(&header, message.data(), sizeof header);
    if (done_ || header.kind != MessageKind::step) return message;
    done_ = true;
    shorter_.assign(message.begin(), message.end() - 4);
    if (consistent_) header.bytes -= 4;
    std::memcpy(shorter_.data(), &header, sizeof header);
    return std::span<const std::byte>(shorter_);
  }

private:
  const bool consistent_;
  bool done_ = false;
  std::vector<std::byte> shorter_;
};

// Counts how its messages hand on what a stage computes.
class PlacesHop : public MemoryHop {
public:
  using MemoryHop::MemoryHop;

  Result<std::span<const std::byte>> receive() override {
    PUMICE_TRY(const std::span<const std::byte> message, MemoryHop::receive());
    MessageHeader header;
    std::memcpy(&header, message.data(), sizeof header);
    placed += header.kind == MessageKind::placed;
    copied += header.kind == MessageKind::step;
    return message;
  }

  uint64_t placed = 0, copied = 0; // steps
};

// Takes all places itself after every third message of one session, until the next one.
class CrowdedHop : public PlacesHop {
public:
  using PlacesHop::PlacesHop;

  void offer(uint32_t session, std::shared_ptr<HopBuffers> places) override {
    taken_.clear();
    places_ = places;
    PlacesHop::offer(session, std::move(places));
  }
  Status send() override {
    for (const uint32_t place : taken_) places_->release(place);
    taken_.clear();
    if (places_ && ++messages_ % 3 == 0) {
      while (const auto place = places_->take()) taken_.push_back(*place);
    }
    return PlacesHop::send();
  }

private:
  std::shared_ptr<HopBuffers> places_;
  std::vector<uint32_t> taken_;
  uint64_t messages_ = 0;
};

// Begins sessions as if the stage before had planned longer steps.
class LongerStepsHop : public MemoryHop {
public:
  Result<std::span<const std::byte>> receive() override {
    PUMICE_TRY(const std::span<const std::byte> message, MemoryHop::receive());
    MessageHeader header;
    std::memcpy(&header, message.data(), sizeof header);
    if (header.kind != MessageKind::begin) return message;
    ++header.tokens;
    changed_.assign(message.begin(), message.end());
    std::memcpy(changed_.data(), &header, sizeof header);
    return std::span<const std::byte>(changed_);
  }

private:
  std::vector<std::byte> changed_;
};

// What a stage with one agreement says to a last stage with another.
std::string disagreement(const Agreement& stage, const Agreement& last) {
  MemoryHop first, back;
  StageServer server(nullptr, "rank 1", first, back, stage);
  std::thread thread([&] { (void)server.run(); });
  StageRing ring(first, back, {"rank 1"});
  const Status greeted = ring.greet(last);
  ring.quit();
  thread.join();
  return greeted.ok() ? "" : greeted.error().text();
}

// What one stage sends and the next one receives, in order.
std::vector<std::pair<std::string, uint32_t>> handed_on(const Graph& graph, bool Tensor::*side) {
  std::vector<std::pair<std::string, uint32_t>> handed;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.*side) handed.emplace_back(tensor.name, tensor.columns);
  }
  return handed;
}

} // namespace

FIXTURE_TEST_CASE("what a stage of a decoder sends is what the next one receives, wherever it is cut") {
  size_t models = 0;
  for (const std::string& name : fixtures().models()) {
    CAPTURE(name);
    const std::optional<OpenedModel> model = decoder_to_cut(name);
    if (!model) continue;
    ++models;
    const ModelShape shape = model->definition->shape();
    for (const Layers& layers : splits(shape)) {
      CAPTURE(layers);
      std::vector<std::pair<std::string, uint32_t>> sent;
      for (const Stage& stage : require(stages_of(name, shape, layers))) {
        LoadOptions options;
        options.stage = stage;
        GraphRequest request;
        request.sampling = true;
        request.context = shape.context;
        const Graph graph = require(build_graph(*model->definition, model->file, request, options));
        CHECK(handed_on(graph, &Tensor::received) == sent);
        sent = handed_on(graph, &Tensor::sent);
        CHECK(sent.empty() == stage.ends(shape.layers_to_cut()));
      }
    }
  }
  CHECK(models >= 10);
}

// Every eleventh decoder with all its cuts: attention, convolutions, a mixture with states. A long run has
// every decoder.
FIXTURE_TEST_CASE("a decoder in stages gives the same bits wherever it is cut") {
  std::vector<std::pair<std::filesystem::path, ModelShape>> models;
  for (const std::string& name : fixtures().models()) {
    if (const auto model = decoder_to_cut(name))
      models.emplace_back(fixtures().model(name), model->definition->shape());
  }
  CHECK(models.size() >= 10);
  for (const auto& [folder, shape] : turns_of(models, 11)) {
    check_cuts(folder, shape);
    if (std::filesystem::exists(folder / "model.gguf")) check_cuts(folder / "model.gguf", shape);
  }
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

TEST_CASE("hops that deliver late and complete messages in another order change nothing") {
  const auto path = stories_model();
  const Texts whole = texts_of(load_model(path));
  std::vector<TestHop*> hops;
  const auto late = [&](uint32_t from) {
    auto hop = std::make_unique<TestHop>(from);
    hops.push_back(hop.get());
    return hop;
  };
  const auto staged = load_stages(path, {2, 1, 2}, late);
  CHECK(texts_of(staged) == whole);
  uint64_t overtaken = 0;
  for (const TestHop* hop : hops) overtaken += hop->overtaken();
  CHECK(overtaken > 0);
}

TEST_CASE("stages hand on what they compute in memory that both devices import") {
  const Device& device = *test_context().device;
  if (!device.can_import()) return skip("the device imports no memory of the host");
  const uint64_t alignment = device.capabilities().host_memory_alignment;
  const auto path = stories_model();
  const Texts whole = texts_of(load_model(path));
  std::vector<PlacesHop*> hops;
  const auto make = [&](uint32_t from) {
    auto hop = std::make_unique<PlacesHop>(from == 2 ? 0 : alignment);
    hops.push_back(hop.get());
    return hop;
  };
  const auto staged = load_stages(path, {2, 1, 2}, make);
  CHECK(texts_of(staged) == whole);
  REQUIRE(hops.size() == 3);
  CHECK(hops[0]->placed == 0); // from the last stage to the first one: rows only
  for (size_t i : {1, 2}) {
    CHECK(hops[i]->placed > 0);
    CHECK(hops[i]->copied == 0);
    CHECK(staged->upstream()->describe().at(i - 1).find("next device imports") != std::string::npos);
  }
}

TEST_CASE("steps for which no place is free are copied, and the bits are the same") {
  const Device& device = *test_context().device;
  if (!device.can_import()) return skip("the device imports no memory of the host");
  const uint64_t alignment = device.capabilities().host_memory_alignment;
  const auto path = stories_model();
  CrowdedHop* crowded = nullptr;
  const auto staged = load_stages(path, {2, 3}, [&](uint32_t from) -> std::unique_ptr<Hop> {
    if (from != 0) return std::make_unique<MemoryHop>();
    auto hop = std::make_unique<CrowdedHop>(alignment);
    crowded = hop.get();
    return hop;
  });
  ForwardOptions options;
  options.chunk = 4;
  options.readable = {"logits", "hidden_states.1", "hidden_states.2"};
  const std::vector<uint32_t> tokens = some_tokens(90, 300);
  CHECK(forward(staged, tokens, options) == forward(load_model(path), tokens, options));
  CHECK(continue_greedily(staged, tokens, 20, 8) == continue_greedily(load_model(path), tokens, 20, 8));
  CHECK(crowded->placed > 0);
  CHECK(crowded->copied > 0);
}

TEST_CASE("a hop that breaks ends all stages with its error") {
  for (uint32_t broken : {0u, 1u, 2u}) {
    for (uint64_t messages : {0u, 1u, 2u, 7u, 20u}) {
      CAPTURE(broken);
      CAPTURE(messages);
      const auto make = [&](uint32_t from) -> std::unique_ptr<Hop> {
        return std::make_unique<TestHop>(from, from == broken ? messages : UINT64_MAX);
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

TEST_CASE("a message of the wrong length ends all stages with a sentence that tells both lengths") {
  for (uint32_t shortened : {0u, 1u, 2u}) {
    for (bool consistent : {false, true}) {
      CAPTURE(shortened);
      CAPTURE(consistent);
      const auto make = [&](uint32_t from) -> std::unique_ptr<Hop> {
        if (from == shortened) return std::make_unique<ShorteningHop>(consistent);
        return std::make_unique<MemoryHop>();
      };
      const auto staged = run_batch(load_stages(stories_model(), {2, 1, 2}, make));
      REQUIRE(!staged.ok());
      const std::string text = staged.error().text();
      CAPTURE(text);
      // The last stage's message to the first one has nothing but rows.
      const bool rows_only = consistent && shortened == 2;
      CHECK(text.find(rows_only ? "is too short" : "bytes: expected") != std::string::npos);
    }
  }
}

TEST_CASE("stages that have planned steps of other lengths begin no session") {
  for (const uint32_t longer : {0u, 1u, 2u}) {
    CAPTURE(longer);
    const auto staged = load_stages(stories_model(), {2, 2, 1}, [&](uint32_t from) -> std::unique_ptr<Hop> {
      if (from == longer) return std::make_unique<LongerStepsHop>();
      return std::make_unique<MemoryHop>();
    });
    const Result<Texts> texts = run_batch(staged);
    REQUIRE(!texts.ok());
    const std::string text = texts.error().text();
    CAPTURE(text);
    CHECK(text.find("sends steps of up to") != std::string::npos);
  }
}

TEST_CASE("an error of the last stage ends the others with its sentence") {
  MemoryHop first, back;
  StageServer server(nullptr, "rank 1", first, back);
  Status ended;
  std::thread thread([&] { ended = server.run(); });
  StageRing ring(first, back, {"rank 1"}, 0, "rank 0 on here");
  const Error named = ring.tell({Code::device_lost, "the device was lost"});
  CHECK(named.text() == "rank 0 on here: the device was lost");
  CHECK(ring.tell({Code::io, "another one"}).text() == named.text()); // the first one stays
  CHECK(ring.greet({}).error().text() == named.text());
  ring.quit();
  thread.join();
  REQUIRE(!ended.ok());
  CHECK(ended.error().code == Code::device_lost);
  CHECK(ended.error().text() == named.text());
}

TEST_CASE("a stage that gets a damaged message says from whom, and goes on to the end") {
  MemoryHop first, back;
  StageServer server(nullptr, "rank 1 on here", first, back);
  Status ended;
  std::thread thread([&] { ended = server.run(); });
  const auto bytes = first.begin(3);
  REQUIRE(bytes.ok());
  REQUIRE(first.send().ok());
  StageRing ring(first, back, {"rank 1"}, 0, "rank 0 on here");
  const Status greeted = ring.greet({});
  REQUIRE(!greeted.ok());
  CHECK(greeted.error().text() == "rank 1 on here: a message between stages is damaged");
  ring.quit();
  thread.join();
  CHECK(ended.error().text() == greeted.error().text());
}

TEST_CASE("stages of other versions, models or cuts are refused in the first message") {
  const Agreement agreed = {{"version", "1.2"}, {"model", "00ff"}, {"layers of the stages", "2, 3"}};
  CHECK(disagreement(agreed, agreed).empty());
  for (size_t i = 0; i < agreed.size(); ++i) {
    Agreement other = agreed;
    other[i].second = "something else";
    const std::string text = disagreement(other, agreed);
    CAPTURE(text);
    CHECK(text.find("rank 1: the stages do not fit together") != std::string::npos);
    CHECK(text.find("here is '" + agreed[i].first + ": something else'") != std::string::npos);
    CHECK(text.find("the last stage has '" + agreed[i].first + ": " + agreed[i].second) != std::string::npos);
  }
}

TEST_CASE("what cannot be cut is refused with the reason") {
  CHECK(refusal(fixtures().model("llama-gqa"), {1, 77}).text().find("stages of 1, 77 layers do not fit") !=
        std::string::npos);
  const Error encoder = refusal(fixtures().model("bert"), {1, 1});
  CHECK(encoder.code == Code::unsupported);
  CHECK(encoder.text().find("only models with a decoder") != std::string::npos);
  CHECK(refusal(fixtures().model("t5"), {1, 77}).text().find("of its decoder") != std::string::npos);

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
    costs.decoder.layer = {{seconds, 2 * seconds, 3 * seconds, 10 * seconds}, 100};
    costs.decoder.first = costs.decoder.last =
        costs.decoder.whole = {{seconds, seconds, seconds, seconds}, 50};
    costs.encoder.layer = {{0, 0, 0, 20 * seconds}, 100};
    costs.available = available;
    return costs;
  };
  const std::vector<DeviceCosts> unequal = {device(1, 10000), device(3, 3000)};
  const auto layers = [&](SplitGoal goal, const LayerCounts& counts) {
    const auto plan = plan_split(unequal, counts, {}, goal);
    if (!plan.ok()) FAIL(plan.error().text());
    return plan->layers;
  };
  CHECK(layers(SplitGoal::decode, {0, 12}) == Layers{11, 1});
  CHECK(layers(SplitGoal::prefill, {0, 12}) == Layers{9, 3}); // three times as fast, three times as many
  CHECK(layers(SplitGoal::memory, {0, 12}) == Layers{10, 2});
  CHECK(layers(SplitGoal::prefill, {0, 12, 5}) == Layers{5, 7});
  CHECK(layers(SplitGoal::prefill, {6, 6}) == Layers{8, 4});    // an encoder's layers cost twice as much here
  CHECK(layers(SplitGoal::prefill, {6, 6, 1}) == Layers{7, 5}); // before the decoder's second layer

  std::vector<DeviceCosts> large_head = unequal;
  large_head[1].decoder.last.seconds.group += 12;
  CHECK(plan_split(large_head, {0, 12}, {}, SplitGoal::sequences)->layers == Layers{11, 1});
  CHECK(plan_split(large_head, {0, 12}, {}, SplitGoal::prefill)->layers == Layers{9, 3});

  HopCosts hop{0.5, {0.1, 0.2, 0.4, 100}};
  const auto plan = expected_of(unequal, Layers{9, 3}, {0, 12}, hop);
  CHECK(plan.sequence.decode == doctest::Approx(9 + 1 + 9 + 3 + 2 * 0.5 + 0.1));
  CHECK(plan.slowest.prefill == doctest::Approx(100)); // of the hop
  CHECK(plan.slowest.group == doctest::Approx(21));
  CHECK(plan.round_seconds(2) == doctest::Approx(2 * 21));
  CHECK(plan.round_seconds(1) == doctest::Approx(19 + 21 + 2 * 0.5 + 0.2)); // no group fills the gaps
  CHECK(plan.prompt_seconds(1) == doctest::Approx(90 + 1 + 90 + 3 + 2 * 0.5 + 100)); // nothing follows
  CHECK(plan.prompt_seconds(3.5) == doctest::Approx(90 + 1 + 90 + 3 + 2 * 0.5 + 100 + 2.5 * 100));
  CHECK(plan.stages[1].bytes == 350);
  // Devices that are the processors of one machine: what a chunk takes of them is shared.
  std::vector<DeviceCosts> shared = unequal;
  for (DeviceCosts& each : shared) each.decoder.layer.processors.prefill = 9;
  CHECK(expected_of(shared, Layers{9, 3}, {0, 12}, {}).slowest.prefill == doctest::Approx(12 * 9));
  CHECK(expected_of(shared, Layers{9, 3}, {0, 12}, {}).slowest.group == doctest::Approx(21));
  std::vector<DeviceCosts> short_end = unequal; // a last layer that computes one row of a prompt
  short_end[1].decoder.last.seconds.prefill = -20;
  CHECK(expected_of(short_end, Layers{9, 3}, {0, 12}, {}).stages[1].seconds.prefill == doctest::Approx(70));
  CHECK(expected_of(short_end, Layers{9, 3}, {0, 12}, {}).stages[1].seconds.group == doctest::Approx(21));
  HopCosts between_machines;
  between_machines.one_machine = false;
  CHECK(expected_of(shared, Layers{9, 3}, {0, 12}, between_machines).slowest.prefill == doctest::Approx(93));

  const auto alone = expected_of(std::span(unequal).first(1), Layers{12}, {0, 12}, hop);
  CHECK(alone.round_seconds(1) == doctest::Approx(3 * 12 + 1));
  CHECK(alone.prompt_seconds(2.5) == doctest::Approx(2.5 * (10 * 12 + 1)));
  const std::vector<DeviceCosts> small = {device(1, 500), device(1, 500)};
  CHECK(plan_split(small, {0, 12}, {}, SplitGoal::memory).error().code == Code::out_of_memory);
}

// A conversation's state as bytes.
std::vector<std::byte> saved(Session& session) {
  std::vector<std::byte> bytes;
  const Status status = session.save([&](std::span<const std::byte> more) -> Status {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return {};
  });
  if (!status.ok()) FAIL(status.error().text());
  return bytes;
}

std::unique_ptr<Session> session_of(const std::shared_ptr<const Model>& model) {
  SessionOptions options;
  options.size.context = 160;
  options.size.chunk = 16;
  auto session = Session::create(model, options);
  if (!session.ok()) FAIL(session.error().text());
  return std::move(*session);
}

std::vector<uint32_t> next_tokens(Session& session, size_t count) {
  std::vector<uint32_t> tokens;
  while (tokens.size() < count) {
    const auto token = session.next();
    if (!token.ok()) FAIL(token.error().text());
    tokens.push_back(*token);
  }
  return tokens;
}

FIXTURE_TEST_CASE("a conversation that was saved goes on in stages, in other stages, and on one device") {
  // Keys and values; a window that has wrapped around; states. A long run cuts each in both ways.
  size_t turn = 0;
  for (const char* name : {"llama-gqa", "mistral-swa", "lfm2"}) {
    const auto path = fixtures().model(name);
    CAPTURE(path.string());
    const auto whole = load_model(path);
    const auto layers = static_cast<uint32_t>(whole->shape().layers.size());
    REQUIRE(layers >= 2);
    const std::vector<uint32_t> prompt = some_tokens(75, 90);
    const auto one = session_of(whole);
    REQUIRE(one->prefill(prompt, {}).ok());
    (void)next_tokens(*one, 5);
    (void)saved(*one); // ends the text, as below
    const std::vector<uint32_t> continued = next_tokens(*one, 9);
    for (const Layers& cut : turn_of(std::array{Layers{1, layers - 1}, Layers(layers, 1)}, turn++)) {
      CAPTURE(cut);
      const auto staged = load_stages(path, cut);
      const auto session = session_of(staged);
      REQUIRE(session->prefill(prompt, {}).ok());
      (void)next_tokens(*session, 5);
      const std::vector<std::byte> bytes = saved(*session);
      for (const auto& model : {staged, whole}) {
        const auto other = session_of(model);
        const Status restored = other->restore(MappedFile::from_memory(bytes, "saved"));
        if (!restored.ok()) FAIL(restored.error().text());
        CHECK(saved(*other) == bytes);
        CHECK(next_tokens(*other, 9) == continued);
        if (name != std::string("lfm2")) CHECK(other->reused() >= 70); // nothing was computed again
      }
      REQUIRE(session->suspend().ok());
      REQUIRE(session->resume(staged).ok());
      CHECK(next_tokens(*session, 9) == continued);
      const auto copy = session_of(staged), source = session_of(staged);
      REQUIRE(source->restore(MappedFile::from_memory(bytes, "saved")).ok());
      REQUIRE(copy->copy(*source).ok());
      CHECK(next_tokens(*copy, 9) == continued);
    }
  }
}

TEST_CASE("a session in stages says what it cannot do") {
  SessionOptions options;
  options.size.context = 64;
  auto session = Session::create(load_stages(stories_model(), {2, 3}), options);
  REQUIRE(session.ok());
  REQUIRE((*session)->begin({some_tokens(5, 300), true, 4, {}}).ok());
  const auto slice = (*session)->slice({1e-3});
  REQUIRE(!slice.ok());
  CHECK(slice.error().code == Code::unsupported);
}
