#include "model/architecture.h"

namespace pumice {

namespace {

// A decoder as a text reader.
class DecoderReader : public ModelDefinition {
public:
  DecoderReader(std::unique_ptr<ModelDefinition> decoder, EncoderShape shape)
      : decoder_(std::move(decoder)), shape_(std::move(shape)) {}

  ModelShape shape() const override {
    ModelShape shape;
    shape.encoder = shape_;
    return shape;
  }
  std::vector<Hyperparameter> hyperparameters() const override { return decoder_->hyperparameters(); }
  std::vector<WeightSpec> weights() const override { return decoder_->weights(); }
  Result<EncoderGraph> encoder_graph(const ModelFile& file) const override {
    return decoder_->reading_graph(file);
  }

private:
  std::unique_ptr<ModelDefinition> decoder_;
  EncoderShape shape_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_text_reader(const ModelFile& file) {
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (!shape.has_decoder()) return definition;
  PUMICE_TRY(EncoderShape reading, definition->reading_shape(file));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<DecoderReader>(std::move(definition), std::move(reading)));
}

} // namespace pumice
