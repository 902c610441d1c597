#include "models/glm4/glm4.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// GLM-4 of 2025 (GLM Team): norms around both sublayers, one tensor for gate and up, and neighbouring
// dimensions of half of each head rotated in pairs.
class Glm4 : public DecoderModel {
public:
  Glm4(DecoderConfig config, bool gguf, bool bias) : DecoderModel(std::move(config), gguf), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = bias_;
    const BlockNorms norms = {{"input_layernorm", "attn_norm"},
                              {"post_self_attn_layernorm", "post_attention_norm"},
                              {"post_attention_layernorm", "ffn_norm"},
                              {"post_mlp_layernorm", "post_ffw_norm"}};
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.fused_gated_feed_forward(y); });
    });
  }

  std::string_view gguf_architecture() const override { return "glm4"; }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_glm4(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  names.default_head_dim = 128;
  names.default_rotary_share = 0.5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.rotary.pairs = RotaryPairs::neighbouring;
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Glm4>(std::move(config), settings.gguf(), biases.attention));
}

} // namespace pumice
