#include "models/gpt_oss/gpt_oss.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/gguf_model.h"
#include "models/decoder/mixture.h"

namespace pumice {

namespace {

constexpr float gguf_limit = 7; // GGUF has no key for it
constexpr uint32_t gpt_oss_window = 128, gpt_oss_period = 2;

// gpt-oss (OpenAI 2025): a sink for each head, a window in every other layer, experts with biases and a
// clamped gate.
class GptOss : public MixtureModel {
public:
  GptOss(DecoderConfig config, bool gguf, MixtureConfig mixture, const Biases& biases)
      : MixtureModel(std::move(config), gguf, std::move(mixture)), biases_(biases) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    if (mixture().limit == gguf_limit) return MixtureModel::gguf(file);
    return Error{Code::unsupported,
                 fmt::format("{}: field 'swiglu_limit': GGUF's gpt-oss models have {}; found {}", file.path(),
                             gguf_limit, mixture().limit)};
  }

protected:
  void build(DecoderBuilder& builder) const override {
    const BlockNorms norms = {
        {"input_layernorm", "attn_norm"}, {}, {"post_attention_layernorm", "post_attention_norm"}, {}};
    MixtureNames names;
    names.stack = ExpertStack::alternating;
    names.router = {"mlp.router", "ffn_gate_inp"};
    names.gate = {"mlp.experts.gate_up_proj", "ffn_gate_exps"};
    names.up = {"mlp.experts.gate_up_proj", "ffn_up_exps"};
    names.down = {"mlp.experts.down_proj", "ffn_down_exps"};
    builder.decode([&](uint32_t layer, TensorId x) {
      AttentionStyle style;
      style.input_bias = biases_.attention;
      style.output_bias = biases_.output;
      const TensorName sinks = {"self_attn.sinks", "attn_sinks.weight"};
      style.sinks = builder.weight(builder.tensor(sinks, "", config().heads, 0, "attention"), "attention");
      return builder.block(
          x, norms, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return pumice::mixture(builder, y, mixture(), names); });
    });
  }

  std::string_view gguf_architecture() const override { return "gpt-oss"; }
  GgufMixtureRule gguf_rule() const override { return {true, false}; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = MixtureModel::gguf_metadata();
    metadata.update(gguf_windows(config()));
    return metadata;
  }

private:
  Biases biases_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gpt_oss(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(read_periodic_windows(settings, gpt_oss_window, gpt_oss_period, config));
  if (settings.gguf()) config.rotary.truncate = false; // GGUF has no key for it
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, {}));
  mixture.biases = true;
  PUMICE_TRY(mixture.limit, settings.f32_or({"swiglu_limit", ""}, 1e-3f, 1e6f, gguf_limit));
  PUMICE_TRY(Biases biases, read_biases(settings, {.attention_by_default = true}));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<GptOss>(std::move(config), settings.gguf(), std::move(mixture), biases));
}

} // namespace pumice
