#include "models/encoder/model.h"

namespace pumice {

ModelShape EncoderModel::shape() const {
  ModelShape shape;
  shape.encoder = config_.shape();
  return shape;
}

std::vector<Hyperparameter> EncoderModel::hyperparameters() const {
  return pumice::hyperparameters(config_);
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

} // namespace pumice
