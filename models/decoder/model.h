#pragma once

#include <nlohmann/json.hpp>

#include "models/decoder/builder.h"

namespace pumice {

// A decoder-only model. Its architecture implements build(), which describes it to a DecoderBuilder;
// everything that the runtime needs comes from that description.
class DecoderModel : public ModelDefinition {
public:
  DecoderModel(DecoderConfig config, bool gguf) : config_(std::move(config)), gguf_(gguf) {}

  ModelShape shape() const override;
  std::vector<Hyperparameter> hyperparameters() const override;
  std::vector<WeightSpec> weights() const override;
  Result<DecoderGraph> graph(const ModelFile& file) const override;
  Result<EncoderGraph> encoder_graph(const ModelFile& file) const override;
  Result<EncoderShape> reading_shape(const ModelFile& file) const override;
  Result<EncoderGraph> reading_graph(const ModelFile& file) const override;
  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  const DecoderConfig& config() const { return config_; }

  virtual void build(DecoderBuilder& builder) const = 0;
  // The architecture's own settings, to be printed with the common ones.
  virtual std::vector<Hyperparameter> own_hyperparameters() const { return {}; }
  // The architecture's name in GGUF.
  virtual std::string_view gguf_architecture() const = 0;
  // The activation that llama.cpp uses for the architecture, because GGUF has no key for it.
  virtual Activation gguf_activation() const { return Activation::silu; }
  // GGUF's keys besides the common ones, without the architecture's name in front; null leaves one out.
  virtual nlohmann::json gguf_metadata() const { return nlohmann::json::object(); }

private:
  DecoderConfig config_;
  const bool gguf_;
};

} // namespace pumice
