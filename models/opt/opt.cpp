#include "models/opt/opt.h"

#include <fmt/format.h>

#include "model/gguf_model.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// OPT (Zhang et al. 2022): GPT-3's shape with ReLU. GGUF has no name for it.
class Opt : public DecoderModel {
public:
  Opt(DecoderConfig config, bool gguf, bool bias) : DecoderModel(std::move(config), gguf), bias_(bias) {}

  Result<GgufModel> gguf(const ModelFile& file) const override { return ModelDefinition::gguf(file); }

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = style.output_bias = bias_;
    style.output = {"self_attn.out_proj", ""};
    const BlockNorms norms = {{"self_attn_layer_norm", ""}, {}, {"final_layer_norm", ""}, {}};
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) {
            return builder.plain_feed_forward(y, {"fc1", ""}, {"fc2", ""}, bias_);
          });
    };
    DecoderNames names;
    names.layers = "decoder.layers.{}.";
    names.norm = {"decoder.final_layer_norm", ""};
    const TensorId x = builder.embed({"decoder.embed_tokens", ""});
    builder.decode_embedded(builder.learned_positions(x, {"decoder.embed_positions", ""}, first_position),
                            block, names);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override { return {{"positions", "learned"}}; }
  std::string_view gguf_architecture() const override { return ""; }

private:
  static constexpr uint32_t first_position = 2; // the table begins with two unused rows
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_opt(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(settings.expect("do_layer_norm_before", true, true));
  PUMICE_CHECK(settings.expect("_remove_final_layer_norm", false, false));
  PUMICE_CHECK(settings.expect("layer_norm_elementwise_affine", true, true));
  PUMICE_CHECK(settings.expect("tie_word_embeddings", true, true));
  DecoderConfigNames names;
  names.set_heads_share_columns();
  names.feed_forward = {"ffn_dim", ""};
  names.norm_eps = {};
  names.activation = {"activation_function", ""};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::relu;
  names.tied_by_default = true;
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  const SettingName width = {"word_embed_proj_dim", ""};
  PUMICE_TRY(uint32_t columns, settings.u32_or(width, 1, limits::columns, config.hidden));
  if (columns != config.hidden) {
    return settings.error(width,
                          fmt::format("expected {}, the hidden size; found {}", config.hidden, columns));
  }
  PUMICE_TRY(bool bias, settings.boolean_or({"enable_bias", ""}, true));
  if (!file.find("decoder.embed_tokens.weight")) config.root = "model.";
  return std::unique_ptr<ModelDefinition>(std::make_unique<Opt>(std::move(config), settings.gguf(), bias));
}

} // namespace pumice
