#include "models/olmo2/olmo2.h"

#include "models/decoder/model.h"

namespace pumice {

namespace {

// OLMo 2 (OLMo Team 2025): LLaMA's sublayers with norms after them instead of before, and norms over the
// whole query and key projections.
class Olmo2 : public DecoderModel {
public:
  Olmo2(DecoderConfig config, bool gguf, bool bias) : DecoderModel(std::move(config), gguf), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = bias_;
    builder.decode([&](uint32_t layer, TensorId x) {
      AttentionInputs inputs = builder.query_key_value(x, style);
      inputs.query = builder.rms_norm(inputs.query, {"self_attn.q_norm", "attn_q_norm"});
      inputs.key = builder.rms_norm(inputs.key, {"self_attn.k_norm", "attn_k_norm"});
      TensorId y = builder.attend(layer, inputs, style);
      y = builder.project(y, {"self_attn.o_proj", "attn_output"}, config().hidden, bias_, "attention");
      y = builder.rms_norm(y, {"post_attention_layernorm", "post_attention_norm"});
      x = builder.add(x, y, "attention_residual");
      y = builder.rms_norm(builder.gated_feed_forward(x), {"post_feedforward_layernorm", "post_ffw_norm"});
      return builder.add(x, y, "residual");
    });
  }

  std::string_view gguf_architecture() const override { return "olmo2"; }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_olmo2(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.gguf_needs_head = true;
  PUMICE_TRY(bool bias, settings.boolean_or({"attention_bias", ""}, false));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Olmo2>(std::move(config), settings.gguf(), bias));
}

} // namespace pumice
