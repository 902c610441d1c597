// Encoders in the forms in which they are published: with heads, prefixes and older names, which not all
// fixtures have.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <map>

#include "kernel/elementwise/elementwise.h"
#include "model/architecture.h"
#include "support/files/safetensors_builder.h"
#include "support/files/temporary_folder.h"

using namespace pumice;
using json = nlohmann::json;

namespace {

using Shapes = std::map<std::string, std::vector<uint64_t>>;

// A folder with this config and with tensors of these shapes.
struct Published {
  Published(const json& config, const Shapes& shapes) {
    json header = json::object();
    uint64_t end = 0;
    for (const auto& [name, shape] : shapes) {
      uint64_t bytes = 4;
      for (uint64_t size : shape) bytes *= size;
      header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {end, end + bytes}}};
      end += bytes;
    }
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors_bytes(header.dump(), end));
    auto opened = ModelFile::open(folder.path());
    if (!opened.ok()) FAIL(opened.error().text());
    file.emplace(*std::move(opened));
    auto read = open_model_definition(*file);
    if (!read.ok()) FAIL(read.error().text());
    definition = *std::move(read);
  }

  EncoderGraph encoder() const {
    auto graph = definition->encoder_graph(*file);
    if (!graph.ok()) FAIL(graph.error().text());
    return *std::move(graph);
  }
  DecoderGraph decoder() const {
    auto graph = definition->graph(*file);
    if (!graph.ok()) FAIL(graph.error().text());
    return *std::move(graph);
  }
  // The model uses all of the tensors.
  bool all_used(const Shapes& shapes) const { return definition->weights().size() == shapes.size(); }

  TemporaryFolder folder;
  std::optional<ModelFile> file;
  std::unique_ptr<ModelDefinition> definition;
};

// The tensors of a model with this config and without heads, each name changed by `rename`.
Shapes tensors(const json& config, const std::function<std::string(std::string)>& rename) {
  const std::string text = config.dump();
  const auto file = ModelFile::from_memory(std::as_bytes(std::span(text)), "config.json");
  if (!file.ok()) FAIL(file.error().text());
  const auto definition = open_model_definition(*file);
  if (!definition.ok()) FAIL(definition.error().text());
  Shapes shapes;
  for (const WeightSpec& spec : (*definition)->weights()) shapes[rename(spec.name)] = spec.shape;
  return shapes;
}

std::function<std::string(std::string)> prefixed(const std::string& prefix) {
  return [prefix](const std::string& name) { return prefix + name; };
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (const size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

size_t activations(const Graph& graph, Activation activation) {
  size_t count = 0;
  for (const Node& node : graph.nodes()) {
    const auto* activate = dynamic_cast<const Activate*>(node.operation.get());
    count += activate && activate->activation == activation;
  }
  return count;
}

json bert(const char* type) {
  return {{"model_type", type},
          {"vocab_size", 9},
          {"hidden_size", 8},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 2},
          {"intermediate_size", 12},
          {"pad_token_id", 1},
          {"type_vocab_size", 1},
          {"max_position_embeddings", 16},
          {"id2label", {{"0", "no"}, {"2", "yes"}, {"1", "perhaps"}}}};
}

const std::vector<std::string> labels = {"no", "perhaps", "yes"};

// Its graph has a head of three labels over each input's first row.
void check_logits(const Published& model, const Shapes& shapes) {
  CHECK(model.all_used(shapes));
  CHECK(model.definition->shape().encoder->labels == labels);
  EncoderGraph graph = model.encoder();
  const auto logits = graph.readable.make(graph.graph, "logits", {});
  REQUIRE(logits);
  CHECK(graph.graph.tensor(*logits).columns == 3);
  CHECK(graph.graph.tensor(*logits).rows == RowKind::outputs);
}

} // namespace

TEST_CASE("BERT with a classifier and with TensorFlow's names of norms") {
  Shapes shapes = tensors(bert("bert"), [](std::string name) {
    name = replaced(replaced("bert." + name, "LayerNorm.weight", "LayerNorm.gamma"), "LayerNorm.bias",
                    "LayerNorm.beta");
    return name;
  });
  shapes["bert.pooler.dense.weight"] = {8, 8};
  shapes["bert.pooler.dense.bias"] = {8};
  const size_t encoder = shapes.size();
  shapes["classifier.weight"] = {3, 8};
  shapes["classifier.bias"] = {3};
  const Published model(bert("bert"), shapes);
  check_logits(model, shapes);
  CHECK(model.encoder().readable.contains("pooler_output"));
  CHECK(activations(model.encoder().graph, Activation::tanh) == 1);

  // A classifier of each token has no pooler; its labels are the tokens', not the input's.
  shapes.erase("bert.pooler.dense.weight");
  shapes.erase("bert.pooler.dense.bias");
  const Published tagger(bert("bert"), shapes);
  CHECK(tagger.definition->weights().size() == encoder);
  CHECK(tagger.encoder().readable.contains("logits"));
  CHECK(tagger.definition->shape().encoder->labels.empty());
  CHECK(tagger.definition->shape().encoder->token_labels.size() == 3);
  CHECK(tagger.definition->shape().encoder->token_head == TokenHead::labels);
}

TEST_CASE("RoBERTa and XLM-R with a classifier of two layers") {
  for (const char* type : {"roberta", "xlm-roberta"}) {
    CAPTURE(type);
    Shapes shapes = tensors(bert(type), prefixed("roberta."));
    CHECK(shapes["roberta.embeddings.token_type_embeddings.weight"] == std::vector<uint64_t>{1, 8});
    shapes["classifier.dense.weight"] = {8, 8};
    shapes["classifier.dense.bias"] = {8};
    shapes["classifier.out_proj.weight"] = {3, 8};
    shapes["classifier.out_proj.bias"] = {3};
    const Published model(bert(type), shapes);
    check_logits(model, shapes);
    CHECK(!model.encoder().readable.contains("pooler_output"));
    CHECK(activations(model.encoder().graph, Activation::tanh) == 1);
  }
}

TEST_CASE("DistilBERT with a classifier") {
  const json config = {{"model_type", "distilbert"},
                       {"vocab_size", 9},
                       {"dim", 8},
                       {"n_layers", 1},
                       {"n_heads", 2},
                       {"hidden_dim", 12},
                       {"id2label", {{"0", "no"}, {"2", "yes"}, {"1", "perhaps"}}}};
  Shapes shapes = tensors(config, prefixed("distilbert."));
  shapes["pre_classifier.weight"] = {8, 8};
  shapes["pre_classifier.bias"] = {8};
  shapes["classifier.weight"] = {3, 8};
  shapes["classifier.bias"] = {3};
  const Published model(config, shapes);
  check_logits(model, shapes);
  CHECK(activations(model.encoder().graph, Activation::relu) == 1);
}

TEST_CASE("ViT by itself has a pooler") {
  const json config = {{"model_type", "vit"},      {"hidden_size", 8}, {"num_hidden_layers", 1},
                       {"num_attention_heads", 2}, {"image_size", 8},  {"patch_size", 4},
                       {"intermediate_size", 12},  {"qkv_bias", false}};
  Shapes shapes = tensors(config, prefixed(""));
  CHECK(!shapes.count("encoder.layer.0.attention.attention.query.bias"));
  CHECK(shapes.count("encoder.layer.0.attention.output.dense.bias"));
  shapes["pooler.dense.weight"] = {8, 8};
  shapes["pooler.dense.bias"] = {8};
  const Published model(config, shapes);
  CHECK(model.all_used(shapes));
  CHECK(model.encoder().readable.contains("pooler_output"));
  CHECK(!model.encoder().readable.contains("logits"));
}

TEST_CASE("BART without a prefix of names, and with another name of the embedding table") {
  const json config = {
      {"model_type", "bart"},         {"vocab_size", 9},       {"d_model", 8},
      {"encoder_layers", 1},          {"encoder_ffn_dim", 12}, {"encoder_attention_heads", 2},
      {"decoder_layers", 2},          {"decoder_ffn_dim", 12}, {"decoder_attention_heads", 2},
      {"max_position_embeddings", 16}};
  const Shapes bare = tensors(config, [](const std::string& name) { return replaced(name, "model.", ""); });
  CHECK(Published(config, bare).all_used(bare));
  Published(config, bare).encoder();
  const Shapes other = tensors(config, [](const std::string& name) {
    return replaced(name, "model.shared", "model.decoder.embed_tokens");
  });
  CHECK(Published(config, other).all_used(other));
  Published(config, other).encoder();
  Published(config, other).decoder();
}

TEST_CASE("T5 with a head of its own, and without a decoder") {
  const json config = {{"model_type", "t5"},
                       {"vocab_size", 9},
                       {"d_model", 8},
                       {"d_kv", 4},
                       {"d_ff", 12},
                       {"num_layers", 1},
                       {"num_heads", 2},
                       {"feed_forward_proj", "gated-gelu"},
                       {"tie_word_embeddings", false}};
  Shapes shapes = tensors(config, prefixed(""));
  CHECK(shapes["lm_head.weight"] == std::vector<uint64_t>{9, 8});
  CHECK(shapes.count("decoder.block.0.layer.2.DenseReluDense.wi_1.weight"));
  const Published untied(config, shapes);
  CHECK(untied.all_used(shapes));
  const DecoderGraph graph = untied.decoder();
  for (const Node& node : graph.graph.nodes()) CHECK(!dynamic_cast<const Scale*>(node.operation.get()));

  std::erase_if(shapes, [](const auto& each) {
    return each.first.starts_with("decoder.") || each.first.starts_with("lm_head.");
  });
  const Published alone(config, shapes);
  CHECK(alone.all_used(shapes));
  CHECK(!alone.definition->shape().has_decoder());
  CHECK(alone.definition->shape().encoder->caches.size() == 1);
  alone.encoder();
}

TEST_CASE("Gemma 3, CLIP and SigLIP state only what differs from their classes' defaults") {
  const json pictures = {{"model_type", "siglip_vision_model"},
                         {"hidden_size", 1152},
                         {"image_size", 896},
                         {"num_attention_heads", 16},
                         {"patch_size", 14},
                         {"num_hidden_layers", 27},
                         {"intermediate_size", 4304}};
  const json text = {
      {"model_type", "gemma3_text"}, {"hidden_size", 2560},
      {"intermediate_size", 10240},  {"num_hidden_layers", 34},
      {"sliding_window", 1024},      {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}};
  const json config = {{"model_type", "gemma3"},
                       {"text_config", text},
                       {"vision_config", pictures},
                       {"image_token_index", 262144},
                       {"mm_tokens_per_image", 256}};
  const Published gemma(config, {});
  const ModelShape shape = gemma.definition->shape();
  CHECK(shape.vocabulary == 262208);
  CHECK(shape.layers.size() == 34);
  CHECK(shape.context == 131072);
  const Published siglip({{"model_type", "siglip"},
                          {"text_config", {{"model_type", "siglip_text_model"}}},
                          {"vision_config", {{"model_type", "siglip_vision_model"}}}},
                         {});
  CHECK(siglip.definition->shape().encoder->vocabulary == 32000);
  const Published clip({{"model_type", "clip"},
                        {"text_config", {{"hidden_size", 1024}, {"num_attention_heads", 16}}},
                        {"vision_config", {{"patch_size", 14}}}},
                       {});
  CHECK(clip.definition->shape().encoder->vocabulary == 49408);
  CHECK(clip.definition->shape().encoder->context == 77);
}
