#include "models/phi/phi.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Phi 1 to 2 (Gunasekar et al. 2023): attention and feed-forward read the same layer norm in parallel, only
// some dimensions of each head are rotated, and the head has a bias.
class Phi : public DecoderModel {
public:
  // `fused`: one tensor has queries, keys and values, as in older GGUF files.
  Phi(DecoderConfig config, bool gguf, bool fused) : DecoderModel(std::move(config), gguf), fused_(fused) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = style.output_bias = true;
    style.output = {"self_attn.dense", "attn_output"};
    const BlockNorms one_norm = {norms_before.attention_input, {}, {}, {}};
    const auto inputs = [&](TensorId x) {
      return fused_ ? builder.fused_query_key_value(x, {"", "attn_qkv"}, 1, true)
                    : builder.query_key_value(x, style);
    };
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.parallel_block(
          x, one_norm, [&](TensorId y) { return builder.attend_and_project(layer, inputs(y), style); },
          [&](TensorId y) {
            return builder.plain_feed_forward(y, {"mlp.fc1", "ffn_up"}, {"mlp.fc2", "ffn_down"}, true);
          });
    };
    DecoderNames names;
    names.norm = {"model.final_layernorm", "output_norm"};
    names.head_bias = true;
    builder.decode(block, names);
  }

  std::string_view gguf_architecture() const override { return "phi2"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }

private:
  bool fused_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_phi(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu_tanh;
  names.default_rotary_share = 0.5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  config.gguf_needs_head = true;
  PUMICE_CHECK(settings.expect("qk_layernorm", false, false));
  const bool fused = settings.gguf() && file.find("blk.0.attn_qkv.weight");
  return std::unique_ptr<ModelDefinition>(std::make_unique<Phi>(std::move(config), settings.gguf(), fused));
}

} // namespace pumice
