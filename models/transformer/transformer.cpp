#include <cmath>

#include <fmt/format.h>

#include "kernel/position/sinusoid.h"
#include "models/encoder_decoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

struct TransformerSettings {
  bool norm_first = false;
  bool scaled_embedding = true;
  bool output_bias = true;
};

// The Transformer (Vaswani et al. 2017) in the form of torch.nn.Transformer, with one embedding table for
// both sides, sinusoidal positions and a projection to the vocabulary.
class Transformer : public EncoderDecoderModel {
public:
  Transformer(EncoderConfig encoder, DecoderConfig decoder, bool gguf, TransformerSettings own)
      : EncoderDecoderModel(std::move(encoder), std::move(decoder), gguf), own_(own) {}

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    const TensorId x = run(builder, "transformer.encoder.");
    builder.finish(x);
    builder.store_memory(x, layer_names("transformer.decoder."));
  }

  void build_decoder(DecoderBuilder& builder) const override {
    const TensorId x = run(builder, "transformer.decoder.");
    builder.hidden_state(x);
    builder.prefix("", "");
    std::optional<WeightView> bias;
    if (own_.output_bias) bias = builder.tensor({"output", ""}, ".bias", decoder().vocabulary, 0, "head");
    builder.finish(x, {"output", ""}, bias ? &*bias : nullptr);
  }

private:
  LayerNames layer_names(const std::string& side) const {
    LayerNames names;
    names.hugging_face = side + "layers.{}.";
    names.norm_first = own_.norm_first;
    names.attention.fused = {"self_attn.in_proj", ""};
    names.attention.fused_weight = "_weight";
    names.attention.fused_bias = "_bias";
    names.attention.output = {"self_attn.out_proj", ""};
    names.attention_norm = {"norm1", ""};
    names.feed_forward_norm = {"norm2", ""};
    names.up = {"linear1", ""};
    names.down = {"linear2", ""};
    if (side == "transformer.decoder.") {
      names.cross_attention = names.attention;
      names.cross_attention->fused = {"multihead_attn.in_proj", ""};
      names.cross_attention->output = {"multihead_attn.out_proj", ""};
      names.cross_attention_norm = {"norm2", ""};
      names.feed_forward_norm = {"norm3", ""};
    }
    return names;
  }

  TensorId run(StackBuilder& builder, const std::string& side) const {
    const float scale = own_.scaled_embedding ? std::sqrt(static_cast<float>(encoder().hidden)) : 1.0f;
    TensorId x = builder.embed({"embedding", ""}, scale);
    x = sinusoidal_positions(builder.graph(), "with_positions", x, {});
    x = builder.run_layers(x, layer_names(side));
    builder.prefix(side, "");
    return builder.layer_norm(x, {"norm", ""});
  }

  TransformerSettings own_;
};

StackConfigNames config_names() {
  StackConfigNames names;
  names.hidden = {"d_model", ""};
  names.heads = {"num_heads", ""};
  names.set_heads_share_columns();
  names.feed_forward = {"dim_feedforward", ""};
  names.norm_eps = {"layer_norm_eps", ""};
  names.activation = {"activation", ""};
  names.default_context = 512;
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::relu;
  names.rotary = false;
  return names;
}

Status check_positions(const Settings& settings) {
  PUMICE_TRY(std::string kind, settings.fields().string_or("position_encoding", "sinusoidal"));
  if (kind == "sinusoidal") return {};
  return settings.error({"position_encoding", ""}, fmt::format("expected sinusoidal; found '{}'", kind));
}

OpenedDefinition open_transformer(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_CHECK(check_positions(settings));
  StackConfigNames names = config_names();
  names.layers = {"num_encoder_layers", ""};
  EncoderConfig encoder;
  PUMICE_TRY(static_cast<StackConfig&>(encoder), read_stack_config(settings, names));
  encoder.any_length = true;
  names.layers = {"num_decoder_layers", ""};
  PUMICE_TRY(DecoderConfig decoder, read_decoder_config(settings, names));
  TransformerSettings own;
  PUMICE_TRY(own.norm_first, settings.boolean_or({"norm_first", ""}, false));
  PUMICE_TRY(own.scaled_embedding, settings.boolean_or({"scale_embedding", ""}, true));
  own.output_bias = !file.has_weights() || file.find("output.bias");
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Transformer>(std::move(encoder), std::move(decoder), settings.gguf(), own));
}

} // namespace

Architectures transformer_models() {
  return {{"transformer", {"transformer"}, {}, open_transformer}};
}

} // namespace pumice
