#include "models/qwen2/qwen2.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Qwen 2 (Yang et al. 2024): LLaMA's blocks with biases only for queries, keys and values.
class Qwen2 : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = true;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.pre_norm_block(
          x, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); });
    });
  }

  std::string_view gguf_architecture() const override { return "qwen2"; }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen2(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_CHECK(read_upper_windows(settings, config));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Qwen2>(std::move(config), settings.gguf()));
}

} // namespace pumice
