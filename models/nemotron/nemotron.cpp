#include "models/nemotron/nemotron.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// Nemotron and Minitron (Nvidia 2024): layer norms whose weights lack 1, a feed-forward of squared ReLU
// without a gate, and only some dimensions of each head rotated.
class Nemotron : public DecoderModel {
public:
  Nemotron(DecoderConfig config, bool gguf, const Biases& biases)
      : DecoderModel(std::move(config), gguf), biases_(biases) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = biases_.attention;
    style.output_bias = biases_.output;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return feed_forward(builder, y); });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return pumice::hyperparameters(biases_);
  }
  std::string_view gguf_architecture() const override { return "nemotron"; }
  Activation gguf_activation() const override { return Activation::relu; }

private:
  TensorId feed_forward(DecoderBuilder& builder, TensorId x) const {
    const bool bias = biases_.feed_forward;
    const TensorId up =
        builder.project(x, {"mlp.up_proj", "ffn_up"}, config().feed_forward, bias, "feed-forward");
    // relu(x) * x is the square of relu(x).
    const TensorId y = gate(builder.graph(), builder.prefix() + "activated", up, up, Activation::relu);
    return builder.project(y, {"mlp.down_proj", "ffn_down"}, config().hidden, bias, "feed-forward");
  }

  Biases biases_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_nemotron(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.norm_eps = {"norm_eps", "attention.layer_norm_epsilon"};
  names.activation = {};
  names.default_activation = Activation::relu;
  names.default_norm_eps = 1e-5f;
  names.default_rotary_share = 0.5f;
  if (!settings.gguf()) {
    PUMICE_TRY(std::string activation, settings.fields().string_or("hidden_act", "relu2"));
    if (activation != "relu2") {
      return settings.fields().error("hidden_act", fmt::format("expected relu2; found '{}'", activation));
    }
  }
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  config.norm.weight_offset = 1;
  config.gguf_needs_head = true;
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Nemotron>(std::move(config), settings.gguf(), biases));
}

} // namespace pumice
