// Models with an encoder and a decoder give the same bits in stages, wherever they are cut: before each layer
// of the encoder and of the decoder, and between the two.
#include <random>

#include <doctest/doctest.h>

#include "generate/encoder_decoder.h"
#include "generate/forced_pass.h"
#include "model/upstream.h"
#include "stage/local_stages.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/in_turn.h"
#include "support/model.h"
#include "support/stages.h"
#include "support/test_hop.h"

using namespace pumice;

namespace {

// All ways to cut a model into two stages, and the one with a layer in each.
std::vector<Layers> splits(const ModelShape& shape) {
  const uint32_t count = shape.layers_to_cut();
  std::vector<Layers> all;
  for (uint32_t cut = 1; cut < count; ++cut) all.push_back({cut, count - cut});
  if (count > 2) all.push_back(Layers(count, 1));
  return all;
}

EncoderInput some_input(const EncoderShape& shape, uint32_t seed) {
  std::minstd_rand random(seed);
  EncoderInput input;
  if (shape.kind == InputKind::tokens) {
    for (uint32_t i = 0; i < 3 + 7 * seed; ++i)
      input.tokens.push_back(static_cast<uint32_t>(random()) % std::min(shape.vocabulary, 90u));
  } else {
    std::uniform_real_distribution<float> values(-1, 1);
    input.values.resize(shape.input_values());
    for (float& value : input.values) value = values(random);
  }
  return input;
}

std::vector<EncoderInput> some_inputs(const EncoderShape& shape) {
  return {some_input(shape, 1), some_input(shape, 2), some_input(shape, 3)};
}

uint32_t positions_of_two(const EncoderShape& shape) {
  return shape.kind == InputKind::tokens ? 60 : 2 * shape.context;
}

using Tensors = std::vector<std::vector<float>>;

// Two inputs together, with texts of their own.
Tensors pass_over(const std::shared_ptr<const Model>& model) {
  const ModelShape& shape = model->shape();
  ForcedPassOptions options;
  options.readable = {"logits", "encoder_last_hidden_state"};
  if (shape.encoder->layers > 1) options.readable.push_back("encoder_hidden_states.0");
  options.inputs = 2;
  options.input_tokens = positions_of_two(*shape.encoder);
  options.tokens = 20;
  options.chunk = 7;
  auto pass = ForcedPass::create(model, options);
  if (!pass.ok()) FAIL(pass.error().text());
  std::vector<ForcedInput> inputs;
  for (uint32_t i = 0; i < 2; ++i) {
    ForcedInput input{some_input(*shape.encoder, i + 1), {}};
    for (uint32_t at = 0; at < 4 + 9 * i; ++at)
      input.tokens.push_back((at * 37 + i * 11 + 5) % std::min(shape.vocabulary, 90u));
    inputs.push_back(std::move(input));
  }
  const Status run = (*pass)->run(inputs);
  if (!run.ok()) FAIL(run.error().text());
  Tensors all;
  for (const std::string& name : options.readable) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto values = (*pass)->read(name, i);
      if (!values.ok()) FAIL(values.error().text());
      REQUIRE(!values->empty());
      all.push_back(std::move(*values));
    }
  }
  return all;
}

struct Written {
  std::vector<std::vector<uint32_t>> tokens;
  std::vector<float> scores;
  bool operator==(const Written&) const = default;
};

// Three texts, two of them at a time.
Written write(const std::shared_ptr<const Model>& model, uint32_t beams) {
  EncoderDecoderOptions size;
  size.inputs = 2;
  size.beams = beams;
  size.input_tokens = positions_of_two(*model->shape().encoder);
  size.output_tokens = 24;
  auto session = EncoderDecoder::create(model, size);
  if (!session.ok()) FAIL(session.error().text());
  GenerationOptions options;
  options.config = *read_generation_config(model->file(), model->shape().vocabulary);
  if (options.config.prompt.empty()) options.config.prompt = {1};
  options.config.beams = beams;
  options.config.max_tokens = 9;
  options.hypotheses = beams;
  options.sampling.temperature = 0;
  const std::vector<EncoderInput> inputs = some_inputs(*model->shape().encoder);
  auto texts = (*session)->generate(inputs, options);
  if (!texts.ok()) FAIL(texts.error().text());
  Written written;
  for (const std::vector<Hypothesis>& each : *texts) {
    REQUIRE(!each.empty());
    for (const Hypothesis& one : each) {
      written.tokens.push_back(one.tokens);
      written.scores.push_back(one.score);
    }
  }
  return written;
}

void check_cuts(const std::filesystem::path& path, const ModelShape& shape) {
  CAPTURE(path.string());
  const auto whole = load_model(path);
  const Tensors expected = pass_over(whole);
  const Written greedy = write(whole, 1), beams = write(whole, 3);
  for (const Layers& layers : splits(shape)) {
    CAPTURE(layers);
    const auto staged = load_stages(path, layers);
    CHECK(staged->upstream()->stages() == layers.size() - 1);
    CHECK(pass_over(staged) == expected); // to the bit
    CHECK(write(staged, 1) == greedy);
    CHECK(write(staged, 3) == beams);
  }
}

} // namespace

// Every eighth model, with all its cuts; a long run has every model.
FIXTURE_TEST_CASE("a model with an encoder gives the same bits wherever it is cut") {
  std::vector<std::pair<std::filesystem::path, ModelShape>> models;
  for (const std::string& name : fixtures().models()) {
    const auto folder = fixtures().model(name);
    const auto file = ModelFile::open(folder);
    if (!file.ok()) continue;
    const auto definition = open_model_definition(*file);
    if (!definition.ok() || (*definition)->shape().encoder_layers() == 0) continue;
    models.emplace_back(folder, (*definition)->shape());
  }
  CHECK(models.size() >= 9);
  for (const auto& [folder, shape] : turns_of(models, 8)) {
    check_cuts(folder, shape);
    if (std::filesystem::exists(folder / "model.gguf")) check_cuts(folder / "model.gguf", shape);
  }
}

TEST_CASE("a stage with layers of the encoder only keeps no keys and values of the decoder") {
  const auto path = fixtures().model("marian");
  const ModelShape shape = load_model(path)->shape();
  const uint32_t reads = shape.encoder_layers(), writes = shape.layers_to_cut() - reads;
  LoadOptions options;
  options.stage = {0, reads};
  const auto encoder = load_model(path, options);
  CHECK(!encoder->decodes());
  CHECK(!encoder->last_stage());
  options.stage = {reads, reads + writes};
  const auto decoder = load_model(path, options);
  CHECK(decoder->decodes());
  CHECK(decoder->last_stage());
  SessionSize size;
  size.context = 64;
  const auto bytes = [&](const Model& model) {
    uint64_t sum = 0;
    for (uint64_t each : model.lay_out_memory(size).cache_allocation_bytes) sum += each;
    return sum;
  };
  const uint64_t all = bytes(*load_model(path));
  CHECK(bytes(*encoder) > 0); // the encoder's own
  CHECK(bytes(*encoder) + bytes(*decoder) <= all);
  CHECK(encoder->weight_bytes() < load_model(path)->weight_bytes());
}

TEST_CASE("hops of an encoder that deliver late and break") {
  const auto path = fixtures().model("whisper"); // whose values go to the first stage
  const auto shape = load_model(path)->shape();
  const uint32_t count = shape.layers_to_cut();
  REQUIRE(count >= 3);
  const Layers layers = {1, count - 2, 1};
  const Written expected = write(load_model(path), 2);
  const auto late = [](uint32_t from) { return std::make_unique<TestHop>(from); };
  CHECK(write(load_stages(path, layers, late), 2) == expected);
  for (uint64_t messages : {2u, 5u, 20u}) {
    CAPTURE(messages);
    const auto make = [&](uint32_t from) {
      return std::make_unique<TestHop>(from, from == 1 ? messages : UINT64_MAX);
    };
    const auto model = load_stages(path, layers, make);
    EncoderDecoderOptions size;
    size.input_tokens = shape.encoder->context;
    size.output_tokens = 24;
    const auto text = [&]() -> Status {
      PUMICE_TRY(const auto session, EncoderDecoder::create(model, size));
      GenerationOptions options;
      options.config = *read_generation_config(model->file(), model->shape().vocabulary);
      options.config.max_tokens = 20;
      options.config.ends.clear();
      const std::vector<EncoderInput> inputs = {some_input(*shape.encoder, 1)};
      PUMICE_CHECK(session->generate(inputs, options));
      return {};
    };
    const Status status = text();
    REQUIRE(!status.ok());
    CHECK(status.error().text().find("the link to the test is cut") != std::string::npos);
  }
}
