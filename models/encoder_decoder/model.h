#pragma once

#include "models/decoder/builder.h"
#include "models/encoder/builder.h"

namespace pumice {

// A model with an encoder and a decoder that attends to the encoder's output. Its architecture describes each
// side to a builder of its own.
class EncoderDecoderModel : public ModelDefinition {
public:
  EncoderDecoderModel(EncoderConfig encoder, DecoderConfig decoder, bool gguf);

  ModelShape shape() const override;
  std::vector<Hyperparameter> hyperparameters() const override;
  std::vector<WeightSpec> weights() const override;
  Result<DecoderGraph> graph(const ModelFile& file) const override;
  Result<EncoderGraph> encoder_graph(const ModelFile& file) const override;

protected:
  const EncoderConfig& encoder() const { return encoder_; }
  const DecoderConfig& decoder() const { return decoder_; }
  EncoderConfig& changed_encoder() { return encoder_; } // before graphs are made

  // Must end by storing the keys and values of the decoder's cross-attention (EncoderBuilder::store_memory).
  virtual void build_encoder(EncoderBuilder& builder) const = 0;
  virtual void build_decoder(DecoderBuilder& builder) const = 0;

private:
  EncoderConfig encoder_;
  DecoderConfig decoder_;
  const bool gguf_;
};

} // namespace pumice
