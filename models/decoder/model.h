#pragma once

#include <nlohmann/json.hpp>

#include "models/decoder/builder.h"

namespace pumice {

// A decoder-only model whose architecture describes it through a DecoderBuilder. All that the runtime asks of
// a model comes from that one description.
class DecoderModel : public ModelDefinition {
public:
  DecoderModel(DecoderConfig config, bool gguf) : config_(std::move(config)), gguf_(gguf) {}

  ModelShape shape() const override;
  std::vector<Hyperparameter> hyperparameters() const override;
  std::vector<WeightSpec> weights() const override;
  Result<DecoderGraph> graph(const ModelFile& file) const override;
  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  const DecoderConfig& config() const { return config_; }

  virtual void build(DecoderBuilder& builder) const = 0;
  // What the architecture has beside the common settings, for a person.
  virtual std::vector<Hyperparameter> own_hyperparameters() const { return {}; }
  // Its name in GGUF and the keys beside the common ones, without the architecture's name in front.
  virtual std::string_view gguf_architecture() const = 0;
  // What llama.cpp takes the activation to be, for GGUF does not say.
  virtual Activation gguf_activation() const { return Activation::silu; }
  virtual nlohmann::json gguf_metadata() const { return nlohmann::json::object(); }

private:
  DecoderConfig config_;
  const bool gguf_;
};

} // namespace pumice
