#include "models/encoder/model.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/json_text.h"
#include "io/mapped_file.h"
#include "model/gguf_model.h"
#include "models/decoder/config.h"
#include "models/decoder/rotary.h"

namespace pumice {

ModelShape EncoderModel::shape() const {
  ModelShape shape;
  shape.encoder = config_.shape();
  return shape;
}

std::vector<Hyperparameter> EncoderModel::hyperparameters() const {
  std::vector<Hyperparameter> all = pumice::hyperparameters(config_);
  for (Hyperparameter& own : own_hyperparameters()) all.push_back(std::move(own));
  return all;
}

std::vector<WeightSpec> EncoderModel::weights() const {
  EncoderBuilder builder(config_, gguf_, nullptr);
  build(builder);
  return builder.specs();
}

Result<EncoderGraph> EncoderModel::encoder_graph(const ModelFile& file) const {
  EncoderBuilder builder(config_, gguf_, &file);
  build(builder);
  PUMICE_CHECK(builder.status());
  return builder.take();
}

namespace {

// What sentence-transformers' settings beside the weights say of the pooling, by llama.cpp's number; 0:
// nothing.
Result<uint32_t> pooling_type(const ModelFile& file) {
  constexpr std::pair<const char*, uint32_t> modes[] = {
      {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};
  constexpr const char* name = "1_Pooling/config.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  if (!json) return 0u;
  const Fields fields(*json, file.folder().path(name));
  for (const auto& [name, number] : modes) {
    PUMICE_TRY(const bool chosen, fields.boolean_or(name, false));
    if (chosen) return number;
  }
  return 0u;
}

} // namespace

Result<GgufModel> EncoderModel::gguf(const ModelFile& file) const {
  GgufModel model;
  model.architecture = gguf_architecture();
  // llama.cpp's files have no head of each token.
  if (model.architecture.empty() || config_.token_head != TokenHead::none) return ModelDefinition::gguf(file);
  if (config_.activation != gguf_activation()) {
    return Error{Code::unsupported, fmt::format("{}: field 'hidden_act': GGUF's {} models have {}; found {}",
                                                file.path(), model.architecture, to_string(gguf_activation()),
                                                to_string(config_.activation))};
  }
  EncoderBuilder builder(config_, gguf_, &file);
  build(builder);
  PUMICE_CHECK(builder.status());
  model.tensors = builder.gguf_tensors();
  PUMICE_TRY(const uint32_t pooling, pooling_type(file));
  nlohmann::json metadata = {
      {"context_length", config_.context},
      {"embedding_length", config_.hidden},
      {"block_count", config_.layers},
      {"feed_forward_length", config_.feed_forward},
      {"attention.head_count", config_.heads},
      {"attention.layer_norm_epsilon", config_.norm_eps},
      {"attention.causal", false},
      {"vocab_size", config_.vocabulary},
  };
  if (pooling > 0) metadata["pooling_type"] = pooling;
  if (config_.rotary.pairs != RotaryPairs::none) {
    DecoderConfig same;
    static_cast<StackConfig&>(same) = config_;
    same.rotary = config_.rotary;
    add_gguf_rotary(same, metadata, model.tensors);
  }
  if (!config_.labels.empty()) metadata["classifier.output_labels"] = config_.labels;
  metadata.update(gguf_metadata());
  for (const auto& [key, value] : metadata.items()) model.metadata[model.architecture + "." + key] = value;
  const bool types = std::ranges::any_of(
      model.tensors, [](const GgufTensor& tensor) { return tensor.name == "token_types.weight"; });
  if (types) model.metadata["tokenizer.ggml.token_type_count"] = config_.token_types;
  return model;
}

} // namespace pumice
