#include <fmt/format.h>

#include "kernel/heads/heads.h"
#include "models/decoder/decoder.h"

namespace pumice {

namespace {

// Where the layer is in the file, and what it has beside the model's.
struct PredictionLayer {
  std::string hugging_face, block, gguf; // prefixes
  bool own_embedding = false, own_norm = false, own_head = false;

  void build(const Decoder& decoder, DecoderBuilder& builder) const;
};

void PredictionLayer::build(const Decoder& decoder, DecoderBuilder& builder) const {
  const PredictionNames& names = decoder.prediction;
  const DecoderNames& model = decoder.names;
  const uint32_t hidden = builder.config().hidden;
  const auto in_layer = [&](bool own) {
    builder.prefix(own ? hugging_face : "", own ? gguf : "");
    return own;
  };
  const TensorId token = builder.embed(in_layer(own_embedding) ? names.embedding : model.embedding);
  const TensorId given = builder.graph().input("given_hidden_state", RowKind::tokens, hidden);
  in_layer(true);
  const HeadColumns all = {hidden, 0, hidden};
  const TensorId both =
      join_heads(builder.graph(), builder.prefix() + "joined", builder.norm(token, names.embedding_norm), all,
                 builder.norm(given, names.hidden_norm), all, 1);
  const TensorId projected = builder.project(both, names.projection, hidden, false, "embedding");
  builder.prefix(block, gguf);
  const TensorId x = decoder.block(builder, 0, projected);
  const TensorId y = builder.norm(x, in_layer(own_norm) ? names.norm : model.norm);
  builder.hidden_state(names.gives_normed ? y : x);
  builder.give_logits(y, in_layer(own_head) ? names.head : model.head);
}

} // namespace

Result<Decoder> prediction_decoder(const Decoder& whole, const ModelFile& file, bool gguf) {
  const PredictionNames& names = whole.prediction;
  PredictionLayer layer;
  const uint32_t number = whole.config.layers; // those that predict further tokens come last
  const bool apart = !names.hugging_face.empty();
  layer.hugging_face =
      apart ? std::string(names.hugging_face) : fmt::format(fmt::runtime(whole.names.layers), number);
  layer.block = layer.hugging_face + std::string(names.block);
  layer.gguf = fmt::format("blk.{}.", number);
  const auto has = [&](const TensorName& name) {
    return file.find((gguf ? layer.gguf : layer.hugging_face) +
                     std::string(gguf ? name.gguf : name.hugging_face) + ".weight") != nullptr;
  };
  if (!has(names.projection)) {
    return Error{Code::unsupported,
                 fmt::format("{}: tensor '{}{}.weight' is missing: the file has no layer that was trained to "
                             "predict further tokens, or not one of a kind that is supported (those of "
                             "DeepSeek V3, GLM-4.5, Qwen 3 Next and Qwen 3.5)",
                             file.path(), gguf ? layer.gguf : layer.hugging_face,
                             gguf ? names.projection.gguf : names.projection.hugging_face)};
  }
  const DecoderConfig& of_whole = whole.config;
  const bool mixed = !of_whole.attends.empty() || !of_whole.states.empty();
  if ((mixed && !apart) || !of_whole.reads_with_one_cache()) {
    return Error{
        Code::unsupported,
        fmt::format("{}: a prediction layer of a model whose layers differ is not supported", file.path())};
  }
  layer.own_embedding = has(names.embedding);
  layer.own_norm = has(names.norm);
  layer.own_head = has(names.head);
  Decoder decoder = whole;
  DecoderConfig& config = decoder.config;
  config.layers = 1;
  config.windows = {0};
  config.attends.clear();
  config.states.clear();
  config.further_caches.resize(std::min<size_t>(config.further_caches.size(), 1));
  config.tied_head = config.tied_head && !layer.own_head;
  config.pictures.reset();
  config.rotary.places = PlaceKind::none;
  if (decoder.mixture) decoder.mixture->sparse = {decoder.mixture->sparse.back()};
  decoder.own_build = [layer](const Decoder& self, DecoderBuilder& builder) { layer.build(self, builder); };
  decoder.gguf_name = {}; // no file has it alone
  return decoder;
}

} // namespace pumice
