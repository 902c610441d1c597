#include "models/bloom/bloom.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// BLOOM (Le Scao et al. 2022): GPT-3's shape with a norm of the embeddings, one tensor for queries, keys and
// values, and positions only as a linear bias of the scores.
class Bloom : public DecoderModel {
public:
  using DecoderModel::DecoderModel;

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.output_bias = true;
    style.output = {"self_attention.dense", "attn_output"};
    style.relative_bias.linear = true;
    style.relative_bias.max_distance = config().context;
    const auto block = [&](uint32_t layer, TensorId x) {
      const auto attention = [&](TensorId y) {
        const TensorName name = {"self_attention.query_key_value", "attn_qkv"};
        return builder.attend_and_project(layer, builder.fused_query_key_value(y, name, config().heads, true),
                                          style);
      };
      return builder.block(x, norms_before, attention, [&](TensorId y) {
        return builder.plain_feed_forward(y, {"mlp.dense_h_to_4h", "ffn_up"},
                                          {"mlp.dense_4h_to_h", "ffn_down"}, true);
      });
    };
    DecoderNames names;
    names.layers = "h.{}.";
    names.norm = {"ln_f", "output_norm"};
    const TensorId x = builder.embed({"word_embeddings", "token_embd"});
    builder.decode_embedded(builder.norm(x, {"word_embeddings_layernorm", "token_embd_norm"}), block, names);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"positions", "linear bias of scores"}};
  }
  std::string_view gguf_architecture() const override { return "bloom"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_bloom(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(settings.expect("apply_residual_connection_post_layernorm", false, false));
  PUMICE_CHECK(settings.expect("tie_word_embeddings", true, true));
  // transformers takes either name.
  const auto either = [&](std::string_view one, std::string_view other) {
    return settings.fields().has(one) ? one : other;
  };
  DecoderConfigNames names;
  names.set_heads_share_columns();
  names.context = {"seq_length", "context_length"};
  names.hidden.hugging_face = either("n_embed", "hidden_size");
  names.layers.hugging_face = either("n_layer", "num_hidden_layers");
  names.heads.hugging_face = either("n_head", "num_attention_heads");
  names.feed_forward = {"", "feed_forward_length"};
  names.norm_eps = {"layer_norm_epsilon", "attention.layer_norm_epsilon"};
  names.activation = {};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu_tanh;
  names.tied_by_default = true;
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  if (file.find("transformer.word_embeddings.weight")) config.root = "transformer.";
  return std::unique_ptr<ModelDefinition>(std::make_unique<Bloom>(std::move(config), settings.gguf()));
}

} // namespace pumice
