#include "models/decoder/model.h"

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "models/decoder/rotary.h"

namespace pumice {

ModelShape DecoderModel::shape() const {
  return config_.shape();
}

std::vector<Hyperparameter> DecoderModel::hyperparameters() const {
  std::vector<Hyperparameter> all = pumice::hyperparameters(config_);
  for (Hyperparameter& own : own_hyperparameters()) all.push_back(std::move(own));
  return all;
}

std::vector<WeightSpec> DecoderModel::weights() const {
  DecoderBuilder builder(config_, gguf_, nullptr);
  build(builder);
  return builder.specs();
}

Result<DecoderGraph> DecoderModel::graph(const ModelFile& file) const {
  DecoderBuilder builder(config_, gguf_, &file);
  build(builder);
  PUMICE_CHECK(builder.status());
  return builder.take();
}

Result<GgufModel> DecoderModel::gguf(const ModelFile& file) const {
  if (config_.activation != gguf_activation()) {
    return Error{Code::unsupported, fmt::format("{}: field 'hidden_act': GGUF's {} models have {}; found {}",
                                                file.path(), gguf_architecture(),
                                                to_string(gguf_activation()), to_string(config_.activation))};
  }
  DecoderBuilder builder(config_, gguf_, &file);
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
