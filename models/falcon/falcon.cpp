#include "models/falcon/falcon.h"

#include <fmt/format.h>

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Falcon (Almazrouei et al. 2023): attention and feed-forward in parallel, a feed-forward without a gate, and
// one tensor for queries, keys and values, whose heads share few keys.
class Falcon : public DecoderModel {
public:
  Falcon(DecoderConfig config, bool gguf, bool two_norms)
      : DecoderModel(std::move(config), gguf), two_norms_(two_norms) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.output = {"self_attention.dense", "attn_output"};
    const BlockNorms one = {norms_before.attention_input, {}, {}, {}};
    const BlockNorms two = {{"ln_attn", "attn_norm_2"}, {}, {"ln_mlp", "attn_norm"}, {}};
    const auto block = [&](uint32_t layer, TensorId x) {
      const auto attention = [&](TensorId y) {
        const TensorName name = {"self_attention.query_key_value", "attn_qkv"};
        const AttentionInputs inputs = builder.fused_query_key_value(y, name, config().kv_heads, false);
        return builder.attend_and_project(layer, inputs, style);
      };
      return builder.parallel_block(x, two_norms_ ? two : one, attention, [&](TensorId y) {
        return builder.plain_feed_forward(y, {"mlp.dense_h_to_4h", "ffn_up"},
                                          {"mlp.dense_4h_to_h", "ffn_down"}, false);
      });
    };
    DecoderNames names;
    names.embedding = {"transformer.word_embeddings", "token_embd"};
    names.layers = "transformer.h.{}.";
    names.norm = {"transformer.ln_f", "output_norm"};
    builder.decode(block, names);
  }

  std::string_view gguf_architecture() const override { return "falcon"; }
  Activation gguf_activation() const override { return Activation::gelu; }

private:
  bool two_norms_;
};

// Reads what config.json has: how many heads of keys there are, and whether each sublayer has its own norm.
Status read_form(const Settings& settings, DecoderConfig& config, bool& two_norms) {
  PUMICE_CHECK(settings.expect("alibi", false, false));
  PUMICE_CHECK(settings.expect("bias", false, false));
  PUMICE_TRY(bool grouped, settings.boolean_or({"new_decoder_architecture", ""}, false));
  if (!grouped) PUMICE_CHECK(settings.expect("parallel_attn", true, true));
  PUMICE_TRY(bool one_key_head, settings.boolean_or({"multi_query", ""}, true));
  const SettingName kv_heads = {"num_kv_heads", ""};
  if (grouped) {
    PUMICE_TRY(config.kv_heads, settings.u32_or(kv_heads, 1, limits::heads, config.heads));
  } else {
    config.kv_heads = one_key_head ? 1 : config.heads;
  }
  if (config.heads % config.kv_heads) {
    return settings.error(
        kv_heads, fmt::format("expected a divisor of the {} heads; found {}", config.heads, config.kv_heads));
  }
  PUMICE_TRY(uint32_t norms, settings.u32_or({"num_ln_in_parallel_attn", ""}, 1, 2, grouped ? 2 : 1));
  two_norms = norms == 2;
  return {};
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_falcon(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.kv_heads = {"", "attention.head_count_kv"};
  names.head_dim = {"", "attention.key_length"};
  names.feed_forward = {"ffn_hidden_size", "feed_forward_length"};
  names.norm_eps = {"layer_norm_epsilon", "attention.layer_norm_epsilon"};
  names.activation = {"activation", ""};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  bool two_norms = settings.gguf() && file.find("blk.0.attn_norm_2.weight");
  if (!settings.gguf()) PUMICE_CHECK(read_form(settings, config, two_norms));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Falcon>(std::move(config), settings.gguf(), two_norms));
}

} // namespace pumice
