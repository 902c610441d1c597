#pragma once

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

protected:
  const EncoderConfig& config() const { return config_; }
  void set_input_shape(std::vector<uint32_t> shape) { config_.input_shape = std::move(shape); }

  virtual void build(EncoderBuilder& builder) const = 0;

private:
  EncoderConfig config_;
  const bool gguf_;
};

} // namespace pumice
