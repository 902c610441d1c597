#include "models/gpt_neox/gpt_neox.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
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
    TensorId x = builder.embed({"gpt_neox.embed_in", "token_embd"});
    for (uint32_t layer = 0; layer < config().layers; ++layer) {
      builder.hidden_state(x);
      builder.layer(layer, "gpt_neox.layers.{}.");
      x = block(builder, layer, x);
    }
    builder.prefix("", "");
    x = builder.layer_norm(x, {"gpt_neox.final_layer_norm", "output_norm"});
    builder.hidden_state(x);
    builder.finish(x, {"embed_out", "output"});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"residual", own_.parallel_residual ? "parallel" : "sequential"}};
  }
  std::string_view gguf_architecture() const override { return "gptneox"; }
  Activation gguf_activation() const override { return Activation::gelu; }
  nlohmann::json gguf_metadata() const override {
    return {{"attention.layer_norm_epsilon", config().norm_eps},
            {"use_parallel_residual", own_.parallel_residual}};
  }

private:
  TensorId attention(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    const TensorName name = {"attention.query_key_value", "attn_qkv"};
    const uint64_t size = config().query_rows();
    const uint64_t counts[] = {size, size, size};
    const auto matrices =
        builder.fused_tensor(name, ".weight", counts, config().hidden, config().head_dim, "attention");
    std::vector<WeightView> biases;
    if (own_.attention_bias)
      biases = builder.fused_tensor(name, ".bias", counts, 0, config().head_dim, "attention");
    const auto project = [&](size_t index, const char* suffix) {
      return builder.project(x, builder.node_name(name) + suffix, matrices[index],
                             own_.attention_bias ? &biases[index] : nullptr, "attention");
    };
    const AttentionInputs inputs = {project(0, ".query"), project(1, ".key"), project(2, ".value")};
    const TensorId y = builder.attend(layer, inputs, {});
    return builder.project(y, {"attention.dense", "attn_output"}, config().hidden, own_.attention_bias,
                           "attention");
  }

  TensorId feed_forward(DecoderBuilder& builder, TensorId x) const {
    TensorId y =
        builder.project(x, {"mlp.dense_h_to_4h", "ffn_up"}, config().feed_forward, true, "feed-forward");
    y = activate(builder.graph(), builder.node_name({"mlp.activated", "activated"}), y, config().activation);
    return builder.project(y, {"mlp.dense_4h_to_h", "ffn_down"}, config().hidden, true, "feed-forward");
  }

  TensorId block(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    const TensorId attended =
        attention(builder, layer, builder.layer_norm(x, {"input_layernorm", "attn_norm"}));
    const TensorId y = builder.add(attended, x, "attention_residual");
    const TensorId input = own_.parallel_residual ? x : y;
    const TensorId z =
        feed_forward(builder, builder.layer_norm(input, {"post_attention_layernorm", "ffn_norm"}));
    return builder.add(z, y, "residual");
  }

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
