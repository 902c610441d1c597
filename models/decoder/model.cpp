#include "models/decoder/model.h"

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "models/decoder/rotary.h"

namespace pumice {

ModelShape DecoderModel::shape() const {
  if (!config_.both_ways) return config_.shape();
  ModelShape shape;
  shape.encoder = config_.reading_shape();
  return shape;
}

std::vector<Hyperparameter> DecoderModel::hyperparameters() const {
  std::vector<Hyperparameter> all = pumice::hyperparameters(config_);
  for (Hyperparameter& own : own_hyperparameters()) all.push_back(std::move(own));
  return all;
}

std::vector<WeightSpec> DecoderModel::weights() const {
  DecoderBuilder builder(config_, gguf_, nullptr, config_.both_ways);
  build(builder);
  return builder.specs();
}

Result<DecoderGraph> DecoderModel::graph(const ModelFile& file) const {
  if (config_.both_ways) return ModelDefinition::graph(file);
  DecoderBuilder builder(config_, gguf_, &file);
  build(builder);
  PUMICE_CHECK(builder.status());
  return builder.take();
}

Result<EncoderGraph> DecoderModel::encoder_graph(const ModelFile& file) const {
  return config_.both_ways ? reading_graph(file) : ModelDefinition::encoder_graph(file);
}

Result<EncoderShape> DecoderModel::reading_shape(const ModelFile& file) const {
  if (config_.states.empty()) return config_.reading_shape();
  return Error{Code::unsupported,
               fmt::format("{}: a model of the architecture '{}' cannot turn texts into vectors, because its "
                           "layers keep states of a sequence",
                           file.path(), file.architecture())};
}

Result<EncoderGraph> DecoderModel::reading_graph(const ModelFile& file) const {
  PUMICE_CHECK(reading_shape(file));
  DecoderBuilder builder(config_, gguf_, &file, true);
  build(builder);
  PUMICE_CHECK(builder.status());
  return builder.take_reader();
}

Result<GgufModel> DecoderModel::gguf(const ModelFile& file) const {
  if (config_.activation != gguf_activation()) {
    return Error{Code::unsupported, fmt::format("{}: field 'hidden_act': GGUF's {} models have {}; found {}",
                                                file.path(), gguf_architecture(),
                                                to_string(gguf_activation()), to_string(config_.activation))};
  }
  DecoderBuilder builder(config_, gguf_, &file, config_.both_ways);
  build(builder);
  PUMICE_CHECK(builder.status());
  GgufModel model;
  model.architecture = gguf_architecture();
  model.tensors = builder.gguf_tensors();
  const std::string prefix = model.architecture + ".";
  nlohmann::json metadata = {
      {"context_length", config_.context},
      {"embedding_length", config_.hidden},
      {"block_count", config_.layers},
      {"feed_forward_length", config_.feed_forward},
      {"attention.head_count", config_.heads},
      {"attention.head_count_kv", config_.kv_heads},
      {"attention.key_length", config_.head_dim},
      {"attention.value_length", config_.head_dim},
      {"vocab_size", config_.vocabulary},
  };
  add_gguf_rotary(config_, metadata, model.tensors);
  const bool layer_norm = config_.norm.kind == NormKind::layer;
  metadata[layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon"] =
      config_.norm_eps;
  metadata.update(gguf_metadata());
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_null()) model.metadata[prefix + key] = value;
  }
  return model;
}

} // namespace pumice
