#pragma once

#include <nlohmann/json.hpp>

#include "models/encoder/builder.h"

namespace pumice {

// A model that is only an encoder. Its architecture implements build(), which describes it to an
// EncoderBuilder.
class EncoderModel : public ModelDefinition {
public:
  EncoderModel(EncoderConfig config, bool gguf) : config_(std::move(config)), gguf_(gguf) {}

  ModelShape shape() const override;
  std::vector<Hyperparameter> hyperparameters() const override;
  std::vector<WeightSpec> weights() const override;
  Result<EncoderGraph> encoder_graph(const ModelFile& file) const override;
  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  const EncoderConfig& config() const { return config_; }
  bool reads_gguf() const { return gguf_; }
  void set_input_shape(std::vector<uint32_t> shape) { config_.input_shape = std::move(shape); }

  virtual void build(EncoderBuilder& builder) const = 0;
  // The architecture's own settings, to be printed with the common ones.
  virtual std::vector<Hyperparameter> own_hyperparameters() const { return {}; }

  // The architecture's name in GGUF; empty: GGUF has none.
  virtual std::string_view gguf_architecture() const { return {}; }
  // The activation that llama.cpp uses for the architecture, because GGUF has no key for it.
  virtual Activation gguf_activation() const { return Activation::gelu; }
  // GGUF's keys besides the common ones, without the architecture's name in front.
  virtual nlohmann::json gguf_metadata() const { return nlohmann::json::object(); }

private:
  EncoderConfig config_;
  const bool gguf_;
};

} // namespace pumice
