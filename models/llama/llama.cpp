#include "models/llama/llama.h"

#include <fmt/format.h>

#include "models/decoder/model.h"
#include "models/mixtral/mixtral.h"

namespace pumice {

namespace {

struct Biases {
  bool attention = false; // of queries, keys and values
  bool output = false;
  bool feed_forward = false;
};

// LLaMA 1 to 3 (Touvron et al. 2023) and models of the same form: pre-norm blocks of grouped-query attention
// with rotary positions and a gated feed-forward.
class Llama : public DecoderModel {
public:
  Llama(DecoderConfig config, bool gguf, const Biases& biases)
      : DecoderModel(std::move(config), gguf), biases_(biases) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = biases_.attention;
    style.output_bias = biases_.output;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.pre_norm_block(
          x, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y, biases_.feed_forward); });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"biases", fmt::format("attention {}, feed-forward {}", biases_.attention ? "yes" : "no",
                                   biases_.feed_forward ? "yes" : "no")}};
  }
  std::string_view gguf_architecture() const override { return "llama"; }

private:
  Biases biases_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_llama(const ModelFile& file) {
  const Settings settings(file);
  // GGUF uses the name "llama" for Mixtral too.
  if (settings.has({"", "expert_count"})) {
    PUMICE_TRY(uint32_t experts, settings.fields().u32("llama.expert_count"));
    if (experts > 0) return open_mixtral(file);
  }
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  config.set_neighbouring_in_gguf(settings.gguf());
  Biases biases;
  if (settings.gguf()) {
    biases.attention = file.find("blk.0.attn_q.bias");
    biases.output = file.find("blk.0.attn_output.bias");
    biases.feed_forward = file.find("blk.0.ffn_gate.bias");
    PUMICE_TRY(uint32_t window, settings.u32_or({"", "attention.sliding_window"}, 0, limits::context, 0));
    config.windows.assign(config.layers, window); // Mistral is "llama" in GGUF too
  } else {
    PUMICE_TRY(biases.attention, settings.boolean_or({"attention_bias", ""}, false));
    PUMICE_TRY(biases.feed_forward, settings.boolean_or({"mlp_bias", ""}, false));
    biases.output = biases.attention;
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Llama>(std::move(config), settings.gguf(), biases));
}

} // namespace pumice
