#include "models/gpt2/gpt2.h"

#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise.h"
#include "kernel/embedding.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

struct Gpt2Settings {
  std::string prefix; // of Hugging Face's names: "transformer.", or nothing as in the first models published
  bool scale_scores = true;
  bool scale_by_layer = false;
};

// GPT-2 (Radford et al. 2019), and so GPT-3: pre-norm blocks with layer norms, learned positions, biases
// everywhere and a plain feed-forward. Hugging Face keeps the matrices as [in, out].
class Gpt2 : public DecoderModel {
public:
  Gpt2(DecoderConfig config, bool gguf, Gpt2Settings own)
      : DecoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(DecoderBuilder& builder) const override {
    builder.prefix(own_.prefix, "");
    const TensorId tokens = builder.embed({"wte", "token_embd"});
    const WeightView table =
        builder.tensor({"wpe", "position_embd"}, ".weight", config().context, config().hidden, "embedding");
    const TensorId positions =
        position_embedding(builder.graph(), "position_embedding", builder.weight(table, "embedding"));
    TensorId x = builder.add(tokens, positions, "embedded");
    for (uint32_t layer = 0; layer < config().layers; ++layer) {
      builder.hidden_state(x);
      builder.layer(layer, own_.prefix + "h.{}.");
      x = block(builder, layer, x);
    }
    builder.prefix(own_.prefix, "");
    x = builder.layer_norm(x, {"ln_f", "output_norm"});
    builder.hidden_state(x);
    builder.finish(x, {"lm_head", "output"});
  }

  std::vector<Hyperparameter> own_hyperparameters() const override { return {{"positions", "learned"}}; }
  std::string_view gguf_architecture() const override { return "gpt2"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
  nlohmann::json gguf_metadata() const override {
    return {{"attention.layer_norm_epsilon", config().norm_eps}};
  }

private:
  TensorId project(DecoderBuilder& builder, TensorId x, const TensorName& name, uint32_t rows,
                   std::string_view component) const {
    const WeightView matrix =
        builder.transposed_tensor(name, rows, builder.graph().tensor(x).columns, component);
    const WeightView bias = builder.tensor(name, ".bias", rows, 0, component);
    return builder.project(x, builder.node_name(name), matrix, &bias, component);
  }

  AttentionInputs inputs(DecoderBuilder& builder, TensorId x) const {
    const TensorName name = {"attn.c_attn", "attn_qkv"};
    const uint32_t size = config().hidden;
    const WeightView matrix = builder.transposed_tensor(name, 3 * size, size, "attention");
    const WeightView bias = builder.tensor(name, ".bias", 3 * size, 0, "attention");
    const auto part = [&](uint32_t index, const char* suffix) {
      const WeightView added = bias.slice(index * size, size);
      return builder.project(x, builder.node_name(name) + suffix, matrix.slice(index * size, size), &added,
                             "attention");
    };
    return {part(0, ".query"), part(1, ".key"), part(2, ".value")};
  }

  TensorId block(DecoderBuilder& builder, uint32_t layer, TensorId x) const {
    AttentionStyle style;
    style.score_scale = own_.scale_scores ? 1 / std::sqrt(static_cast<float>(config().head_dim)) : 1.0f;
    if (own_.scale_by_layer) style.score_scale /= static_cast<float>(layer + 1);
    TensorId y = builder.layer_norm(x, {"ln_1", "attn_norm"});
    y = builder.attend(layer, inputs(builder, y), style);
    y = project(builder, y, {"attn.c_proj", "attn_output"}, config().hidden, "attention");
    x = builder.add(y, x, "attention_residual");
    y = builder.layer_norm(x, {"ln_2", "ffn_norm"});
    y = project(builder, y, {"mlp.c_fc", "ffn_up"}, config().feed_forward, "feed-forward");
    y = activate(builder.graph(), builder.node_name({"mlp.activated", "activated"}), y, config().activation);
    y = project(builder, y, {"mlp.c_proj", "ffn_down"}, config().hidden, "feed-forward");
    return builder.add(y, x, "residual");
  }

  Gpt2Settings own_;
};

} // namespace

Result<std::unique_ptr<Definition>> open_gpt2(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.context = {"n_positions", "context_length"};
  names.hidden = {"n_embd", "embedding_length"};
  names.layers = {"n_layer", "block_count"};
  names.heads = {"n_head", "attention.head_count"};
  names.kv_heads = {"", "attention.head_count_kv"};
  names.head_dim = {"", "attention.key_length"};
  names.feed_forward = {"n_inner", "feed_forward_length"};
  names.norm_eps = {"layer_norm_epsilon", "attention.layer_norm_epsilon"};
  names.activation = {"activation_function", ""};
  names.default_context = 1024;
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu_tanh;
  names.tied_by_default = true;
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  if (config.hidden != config.heads * config.head_dim || config.kv_heads != config.heads) {
    return settings.error(names.heads, fmt::format("expected a divisor of the {} columns; found {}",
                                                   config.hidden, config.heads));
  }
  Gpt2Settings own;
  PUMICE_TRY(own.scale_scores, settings.boolean_or({"scale_attn_weights", ""}, true));
  PUMICE_TRY(own.scale_by_layer, settings.boolean_or({"scale_attn_by_inverse_layer_idx", ""}, false));
  own.prefix = file.find("wte.weight") ? "" : "transformer.";
  return std::unique_ptr<Definition>(
      std::make_unique<Gpt2>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace pumice
