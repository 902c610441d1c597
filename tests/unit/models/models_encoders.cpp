// The fixtures' encoders and encoder-decoders: the tensors that each model uses, its shape, and its graphs.
// No device is needed.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>

#include "kernel/attention/attention.h"
#include "kernel/embedding/embedding.h"
#include "kernel/position/position.h"
#include "model/architecture.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"

using namespace pumice;

namespace {

struct Opened {
  ModelFile file;
  std::unique_ptr<ModelDefinition> definition;
};

Opened open(const std::filesystem::path& path) {
  auto file = ModelFile::open(path);
  if (!file.ok()) FAIL(file.error().text());
  auto definition = open_model_definition(*file);
  if (!definition.ok()) FAIL(definition.error().text());
  return {*std::move(file), *std::move(definition)};
}

// The caches that a graph's attention with this mask reads, in order.
std::vector<uint32_t> read_caches(const Graph& graph, AttentionMask mask) {
  std::vector<uint32_t> caches;
  for (const Node& node : graph.nodes()) {
    const auto* attention = dynamic_cast<const Attention*>(node.operation.get());
    if (attention && attention->mask == mask) caches.push_back(attention->layer);
  }
  return caches;
}

std::vector<uint32_t> stored_caches(const Graph& graph) {
  std::vector<uint32_t> caches;
  for (const Node& node : graph.nodes()) {
    if (const auto* store = dynamic_cast<const CacheStore*>(node.operation.get()))
      caches.push_back(store->layer);
  }
  return caches;
}

const Attention* first_attention(const Graph& graph, AttentionMask mask) {
  for (const Node& node : graph.nodes()) {
    const auto* attention = dynamic_cast<const Attention*>(node.operation.get());
    if (attention && attention->mask == mask) return attention;
  }
  return nullptr;
}

uint32_t position_offset(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const auto* embedding = dynamic_cast<const Embedding*>(node.operation.get());
    if (embedding && embedding->index == EmbeddingIndex::position) return embedding->offset;
  }
  return UINT32_MAX;
}

// The file has exactly the tensors that the model uses, with their shapes, and `unused`.
void check_weights(const Opened& model, const std::set<std::string>& unused) {
  std::set<std::string> wanted;
  for (const WeightSpec& spec : model.definition->weights()) {
    CAPTURE(spec.name);
    CHECK(wanted.insert(spec.name).second);
    const auto found = model.file.require(spec.name, spec.shape);
    if (!found.ok()) FAIL_CHECK(found.error().text());
  }
  for (const TensorView& tensor : model.file.tensors()) {
    const std::string name(tensor.name);
    CAPTURE(name);
    CHECK(wanted.count(name) + unused.count(name) == 1);
  }
}

// weights() names all weights of a graph.
void check_weights_named(const ModelDefinition& definition, const Graph& graph) {
  std::set<std::string> named;
  for (const WeightSpec& spec : definition.weights()) named.insert(spec.name);
  for (const Weight& weight : graph.weights()) CHECK(named.count(std::string(weight.view.tensor->name)));
}

EncoderGraph check_encoder(const Opened& model, uint32_t decoder_layers) {
  auto graph = model.definition->encoder_graph(model.file);
  if (!graph.ok()) FAIL(graph.error().text());
  const EncoderShape shape = *model.definition->shape().encoder;
  const uint32_t layers = 2, own = 2 * decoder_layers;
  CHECK(graph->readable.count("hidden_states.") == layers + 1);
  CHECK(graph->readable.count("attentions.") == layers);
  const auto last = graph->readable.make(graph->graph, "last_hidden_state", {});
  REQUIRE(last);
  CHECK(last == graph->readable.make(graph->graph, fmt::format("hidden_states.{}", layers), {}));
  CHECK(!graph->readable.make(graph->graph, fmt::format("hidden_states.{}", layers + 1), {}));
  CHECK(graph->graph.tensor(*last).columns == shape.hidden);
  CHECK(shape.caches.size() == decoder_layers + 1);
  CHECK(read_caches(graph->graph, AttentionMask::bidirectional) == std::vector<uint32_t>(layers, own));
  std::vector<uint32_t> stored(layers, own);
  for (uint32_t layer = 0; layer < decoder_layers; ++layer) stored.push_back(decoder_layers + layer);
  CHECK(stored_caches(graph->graph) == stored);
  check_weights_named(*model.definition, graph->graph);
  return *std::move(graph);
}

DecoderGraph check_decoder(const Opened& model) {
  auto graph = model.definition->graph(model.file);
  if (!graph.ok()) FAIL(graph.error().text());
  CHECK(graph->readable.names() ==
        "logits, log_likelihoods, continuations, hidden_states.0 to hidden_states.2, "
        "attentions.0 to attentions.1, cross_attentions.0 to cross_attentions.1, "
        "matrix_inputs.0 to matrix_inputs.11");
  CHECK(read_caches(graph->graph, AttentionMask::causal) == std::vector<uint32_t>{0, 1});
  CHECK(read_caches(graph->graph, AttentionMask::cross) == std::vector<uint32_t>{2, 3});
  CHECK(stored_caches(graph->graph) == std::vector<uint32_t>{0, 1});
  CHECK(graph->graph.tensor(graph->logits).rows == RowKind::outputs);
  CHECK(graph->graph.tensor(graph->logits).columns == model.definition->shape().vocabulary);
  check_weights_named(*model.definition, graph->graph);
  return *std::move(graph);
}

std::vector<uint64_t> caches(const EncoderShape& shape) {
  std::vector<uint64_t> result;
  for (const LayerCache& cache : shape.caches) result.push_back(cache.kv_heads * 1000 + cache.head_dim);
  return result;
}

} // namespace

FIXTURE_TEST_CASE("BERT and its relatives: weights, shapes and graphs") {
  struct Case {
    std::string name;
    uint32_t context, token_types, offset;
  };
  for (const Case& c :
       {Case{"bert", 128, 2, 0}, Case{"bert/model.gguf", 128, 2, 0}, Case{"roberta", 126, 2, 2},
        Case{"distilbert", 128, 1, 0}, Case{"electra", 128, 2, 0}, Case{"mpnet", 126, 1, 2}}) {
    CAPTURE(c.name);
    const Opened model = open(fixtures().model(c.name));
    check_weights(model, {});
    const ModelShape shape = model.definition->shape();
    CHECK(!shape.has_decoder());
    CHECK(shape.layers.empty());
    REQUIRE(shape.encoder);
    CHECK(shape.encoder->kind == InputKind::tokens);
    CHECK(shape.encoder->vocabulary == 320);
    CHECK(shape.encoder->context == c.context);
    CHECK(!shape.encoder->any_length);
    CHECK(shape.encoder->token_types == c.token_types);
    CHECK(shape.encoder->hidden == 64);
    CHECK(caches(*shape.encoder) == std::vector<uint64_t>{4016});
    const EncoderGraph graph = check_encoder(model, 0);
    CHECK(position_offset(graph.graph) == c.offset);
    CHECK(graph.readable.contains("pooler_output") == (model.file.find("pooler.dense.weight") != nullptr));
    CHECK(graph.readable.contains("logits") == !shape.encoder->labels.empty());
    CHECK(!model.definition->graph(model.file).ok());
  }
}

FIXTURE_TEST_CASE("ViT: weights, shape and graph") {
  const Opened model = open(fixtures().model("vit"));
  check_weights(model, {});
  const ModelShape shape = model.definition->shape();
  REQUIRE(shape.encoder);
  CHECK(shape.encoder->kind == InputKind::pixels);
  CHECK(shape.encoder->context == 17);
  CHECK(shape.encoder->input_shape == std::vector<uint32_t>{3, 32, 32});
  REQUIRE(shape.encoder->labels.size() == 7);
  CHECK(shape.encoder->labels[3] == "LABEL_3");
  EncoderGraph graph = check_encoder(model, 0);
  const auto logits = graph.readable.make(graph.graph, "logits", {});
  REQUIRE(logits);
  CHECK(graph.graph.tensor(*logits).columns == 7);
  CHECK(graph.graph.tensor(*logits).rows == RowKind::outputs);
  CHECK(!graph.readable.contains("pooler_output"));
}

TEST_CASE("BEiT, DeiT and TrOCR use every tensor of their files but a pooler before a decoder") {
  struct Case {
    std::string name;
    uint32_t positions;
    std::set<std::string> unused;
  };
  const std::set<std::string> pooler = {"encoder.pooler.dense.weight", "encoder.pooler.dense.bias"};
  for (const Case& c : {Case{"beit", 26, {}}, Case{"deit", 11, {}}, Case{"vit-trocr", 26, pooler},
                        Case{"deit-trocr", 11, pooler}, Case{"beit-trocr", 37, {}}}) {
    CAPTURE(c.name);
    const Opened model = open(fixtures().model(c.name));
    check_weights(model, c.unused);
    const ModelShape shape = model.definition->shape();
    REQUIRE(shape.encoder);
    CHECK(shape.encoder->context == c.positions);
    CHECK(shape.encoder->labels.size() == (shape.has_decoder() ? 0 : 5));
    const EncoderGraph encoder = check_encoder(model, shape.has_decoder() ? 2 : 0);
    if (shape.has_decoder()) check_decoder(model);
    const Attention* attention = first_attention(encoder.graph, AttentionMask::bidirectional);
    REQUIRE(attention);
    CHECK(attention->bias.by_place() == c.name.starts_with("beit"));
  }
}

FIXTURE_TEST_CASE("encoder-decoders: weights, shapes and graphs") {
  struct Case {
    std::string name;
    uint32_t context, decoder_context;
    bool any_length;
    uint32_t offset; // of learned positions
    std::set<std::string> unused;
  };
  const Case cases[] = {
      {"transformer-postnorm", 512, 512, true, UINT32_MAX, {}},
      {"transformer-prenorm", 512, 512, true, UINT32_MAX, {}},
      {"marian", 128, 128, true, UINT32_MAX, {}},
      {"marian-relu", 128, 128, true, UINT32_MAX, {}},
      {"bart", 128, 128, false, 2, {}},
      {"t5", 512, 512, true, UINT32_MAX, {}},
      {"t5/model.gguf", 512, 512, true, UINT32_MAX, {}},
      {"flan-t5", 512, 512, true, UINT32_MAX, {}},
      {"flan-t5/model.gguf", 512, 512, true, UINT32_MAX, {}},
      {"whisper", 50, 64, false, 0, {}},
      // A decoder sees all of the picture's positions, not their pooled one.
      {"vit-gpt2", 17, 64, false, 0, {"encoder.pooler.dense.weight", "encoder.pooler.dense.bias"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Opened model = open(fixtures().model(c.name));
    check_weights(model, c.unused);
    const ModelShape shape = model.definition->shape();
    CHECK(shape.vocabulary == 320);
    CHECK(shape.context == c.decoder_context);
    CHECK(shape.layers.size() == 2);
    REQUIRE(shape.encoder);
    CHECK(shape.encoder->context == c.context);
    CHECK(shape.encoder->any_length == c.any_length);
    CHECK(shape.encoder->hidden == 64);
    CHECK(caches(*shape.encoder) == std::vector<uint64_t>(3, 4016));
    const EncoderGraph encoder = check_encoder(model, 2);
    const DecoderGraph decoder = check_decoder(model);
    CHECK(position_offset(encoder.graph) == c.offset);
    CHECK(position_offset(decoder.graph) == c.offset);
  }
}

FIXTURE_TEST_CASE("what an encoder reads") {
  const EncoderShape whisper = *open(fixtures().model("whisper")).definition->shape().encoder;
  CHECK(whisper.kind == InputKind::features);
  CHECK(whisper.input_shape == std::vector<uint32_t>{80, 100});
  const EncoderShape caption = *open(fixtures().model("vit-gpt2")).definition->shape().encoder;
  CHECK(caption.kind == InputKind::pixels);
  CHECK(caption.input_shape == std::vector<uint32_t>{3, 32, 32});
  const EncoderShape marian = *open(fixtures().model("marian")).definition->shape().encoder;
  CHECK(marian.kind == InputKind::tokens);
  CHECK(marian.vocabulary == 320);
}

FIXTURE_TEST_CASE("T5's attention is biased by distance and not scaled") {
  for (const char* name : {"t5", "t5/model.gguf"}) {
    CAPTURE(name);
    const Opened model = open(fixtures().model(name));
    const EncoderGraph encoder = check_encoder(model, 2);
    const DecoderGraph decoder = check_decoder(model);
    const Attention* input = first_attention(encoder.graph, AttentionMask::bidirectional);
    const Attention* past = first_attention(decoder.graph, AttentionMask::causal);
    const Attention* memory = first_attention(decoder.graph, AttentionMask::cross);
    REQUIRE((input && past && memory));
    CHECK(input->scale == 1);
    CHECK(memory->scale == 1);
    CHECK(input->bias.buckets == 8);
    CHECK(input->bias.both_ways);
    CHECK(past->bias.buckets == 8);
    CHECK(!past->bias.both_ways);
    CHECK(memory->bias.buckets == 0);
    // Of the GGUF file, by the config.json beside it.
    CHECK(input->bias.max_distance == 20);
  }
}
