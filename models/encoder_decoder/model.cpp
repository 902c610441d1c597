#include "models/encoder_decoder/model.h"

#include <set>
#include <string_view>

namespace pumice {

EncoderDecoderModel::EncoderDecoderModel(EncoderConfig encoder, DecoderConfig decoder, bool gguf)
    : encoder_(std::move(encoder)), decoder_(std::move(decoder)), gguf_(gguf) {
  encoder_.memory.assign(decoder_.layers, {decoder_.kv_heads, decoder_.head_dim, 0});
}

ModelShape EncoderDecoderModel::shape() const {
  ModelShape shape = decoder_.shape();
  shape.encoder = encoder_.shape();
  return shape;
}

std::vector<Hyperparameter> EncoderDecoderModel::hyperparameters() const {
  std::vector<Hyperparameter> all;
  const auto add = [&](const char* side, std::vector<Hyperparameter> settings) {
    for (Hyperparameter& each : settings) all.push_back({side + each.name, std::move(each.value)});
  };
  add("encoder ", pumice::hyperparameters(encoder_));
  add("decoder ", pumice::hyperparameters(decoder_));
  return all;
}

std::vector<WeightSpec> EncoderDecoderModel::weights() const {
  EncoderBuilder encoder(encoder_, gguf_, nullptr);
  build_encoder(encoder);
  DecoderBuilder decoder(decoder_, gguf_, nullptr);
  build_decoder(decoder);
  std::vector<WeightSpec> all = encoder.specs();
  std::set<std::string_view> listed;
  for (const WeightSpec& spec : encoder.specs()) listed.insert(spec.name);
  for (const WeightSpec& spec : decoder.specs()) {
    if (!listed.contains(spec.name)) all.push_back(spec);
  }
  return all;
}

Result<DecoderGraph> EncoderDecoderModel::graph(const ModelFile& file) const {
  DecoderBuilder builder(decoder_, gguf_, &file);
  build_decoder(builder);
  PUMICE_CHECK(builder.status());
  return builder.take();
}

Result<EncoderGraph> EncoderDecoderModel::encoder_graph(const ModelFile& file) const {
  EncoderBuilder builder(encoder_, gguf_, &file);
  build_encoder(builder);
  PUMICE_CHECK(builder.status());
  return builder.take();
}

} // namespace pumice
