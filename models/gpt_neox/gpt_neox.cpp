#include "models/gpt_neox/gpt_neox.h"

#include <fmt/format.h>

#include "models/decoder/model.h"

namespace pumice {

namespace {

struct GptNeoxSettings {
  bool parallel_residual = true;
  bool attention_bias = true;
};

// GPT-NeoX (Black et al. 2022) and Pythia: attention and feed-forward read the same input in parallel, and
// only some dimensions of each head are rotated.
class GptNeox : public DecoderModel {
public:
  GptNeox(DecoderConfig config, bool gguf, const GptNeoxSettings& own)
      : DecoderModel(std::move(config), gguf), own_(own) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.output = {"attention.dense", "attn_output"};
    style.output_bias = own_.attention_bias;
    const auto attention = [&](uint32_t layer, TensorId x) {
      const TensorName name = {"attention.query_key_value", "attn_qkv"};
      const AttentionInputs inputs =
          builder.fused_query_key_value(x, name, config().heads, own_.attention_bias);
      return builder.attend_and_project(layer, inputs, style);
    };
    const auto feed_forward = [&](TensorId x) {
      return builder.plain_feed_forward(x, {"mlp.dense_h_to_4h", "ffn_up"}, {"mlp.dense_4h_to_h", "ffn_down"},
                                        true);
    };
    const auto block = [&](uint32_t layer, TensorId x) {
      const auto attend = [&](TensorId y) { return attention(layer, y); };
      return own_.parallel_residual ? builder.parallel_block(x, norms_before, attend, feed_forward)
                                    : builder.block(x, norms_before, attend, feed_forward);
    };
    DecoderNames names;
    names.embedding = {"gpt_neox.embed_in", "token_embd"};
    names.layers = "gpt_neox.layers.{}.";
    names.norm = {"gpt_neox.final_layer_norm", "output_norm"};
    names.head = {"embed_out", "output"};
    builder.decode(block, names);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"residual", own_.parallel_residual ? "parallel" : "sequential"}};
  }
  std::string_view gguf_architecture() const override { return "gptneox"; }
  Activation gguf_activation() const override { return Activation::gelu; }
  nlohmann::json gguf_metadata() const override {
    return {{"use_parallel_residual", own_.parallel_residual}};
  }

private:
  GptNeoxSettings own_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gpt_neox(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.kv_heads = {"", "attention.head_count_kv"};
  names.head_dim = {"", "attention.key_length"};
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu;
  names.default_rotary_share = 0.25f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  config.gguf_needs_head = true;
  if (config.hidden != config.heads * config.head_dim || config.kv_heads != config.heads) {
    return settings.error(names.heads, fmt::format("expected a divisor of the {} columns; found {}",
                                                   config.hidden, config.heads));
  }
  GptNeoxSettings own;
  PUMICE_TRY(own.parallel_residual,
             settings.boolean_or({"use_parallel_residual", "use_parallel_residual"}, true));
  PUMICE_TRY(own.attention_bias, settings.boolean_or({"attention_bias", ""}, true));
  return std::unique_ptr<ModelDefinition>(std::make_unique<GptNeox>(std::move(config), settings.gguf(), own));
}

} // namespace pumice
