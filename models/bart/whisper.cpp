#include <cmath>

#include <fmt/format.h>

#include "kernel/convolution/convolution.h"
#include "kernel/elementwise/elementwise.h"
#include "models/bart/bart.h"
#include "models/encoder_decoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

constexpr uint32_t convolution_width = 3;
constexpr uint32_t max_positions = 1 << 20; // so that the number of values fits 32 bits

// Whisper (Radford et al. 2022): a pre-norm Transformer. Two convolutions turn the log-mel spectrum into the
// encoder's input and halve the number of frames.
class Whisper : public EncoderDecoderModel {
public:
  Whisper(BartConfig config, bool gguf, std::string prefix, bool scaled_embedding)
      : EncoderDecoderModel(std::move(config.encoder), std::move(config.decoder), gguf),
        prefix_(std::move(prefix)), scaled_embedding_(scaled_embedding) {}

protected:
  void build_encoder(EncoderBuilder& builder) const override {
    builder.prefix(prefix_ + "encoder.", "");
    TensorId x = builder.learned_positions(convolve_features(builder), {"embed_positions", ""});
    x = builder.run_layers(x, layer_names("encoder"));
    builder.prefix(prefix_ + "encoder.", "");
    x = builder.layer_norm(x, {"layer_norm", ""});
    builder.finish(x);
    builder.store_memory(x, layer_names("decoder"));
  }

  void build_decoder(DecoderBuilder& builder) const override {
    const std::string side = prefix_ + "decoder.";
    const float scale = scaled_embedding_ ? std::sqrt(static_cast<float>(decoder().hidden)) : 1.0f;
    builder.prefix(side, "");
    TensorId x = builder.embed({"embed_tokens", ""}, scale);
    x = builder.learned_positions(x, {"embed_positions", ""});
    x = builder.run_layers(x, layer_names("decoder"));
    builder.prefix(side, "");
    x = builder.layer_norm(x, {"layer_norm", ""});
    builder.hidden_state(x);
    builder.finish(x, {"proj_out", ""});
  }

private:
  LayerNames layer_names(std::string_view side) const {
    LayerNames names = bart_layer_names(prefix_, side);
    names.norm_first = true;
    names.attention.key_bias = false;
    if (names.cross_attention) names.cross_attention->key_bias = false;
    return names;
  }

  // The first convolution's results for the even frames (first = -1) or the odd ones (first = 0).
  TensorId first_convolution(EncoderBuilder& builder, TensorId features, int32_t first) const {
    FrameWindows windows;
    windows.channels = encoder().input_shape[0];
    windows.frames = encoder().input_shape[1];
    windows.width = convolution_width;
    windows.stride = 2;
    windows.first = first;
    const char* name = first < 0 ? "even_frames" : "odd_frames";
    return convolve(builder, frame_windows(builder.graph(), name, features, windows), {"conv1", ""},
                    windows.channels);
  }

  TensorId convolve(EncoderBuilder& builder, TensorId x, const TensorName& name, uint32_t channels) const {
    const uint32_t hidden = encoder().hidden;
    const WeightView matrix =
        builder.flat_tensor(name, ".weight", {hidden, channels, convolution_width}, "embedding");
    const WeightView bias = builder.tensor(name, ".bias", hidden, 0, "embedding");
    x = builder.project(x, builder.node_name(name), matrix, &bias, "embedding");
    return activate(builder.graph(), builder.node_name(name) + ".activated", x, Activation::gelu);
  }

  TensorId convolve_features(EncoderBuilder& builder) const {
    const TensorId features =
        builder.graph().input("input_features", RowKind::outputs, encoder().shape().input_values());
    const TensorId even = first_convolution(builder, features, -1);
    const TensorId odd = first_convolution(builder, features, 0);
    return convolve(builder, pair_windows(builder.graph(), "frame_pairs", even, odd), {"conv2", ""},
                    encoder().hidden);
  }

  std::string prefix_; // of Hugging Face's tensor names
  bool scaled_embedding_;
};

OpenedDefinition open_whisper(const ModelFile& file) {
  const Settings settings(file);
  BartConfigNames names;
  names.encoder_vocabulary = {};
  names.encoder_context = {"max_source_positions", ""};
  names.decoder_context = {"max_target_positions", ""};
  PUMICE_TRY(BartConfig config, read_bart_config(settings, names));
  if (!settings.has(names.encoder_context)) config.encoder.context = 1500;
  if (!settings.has(names.decoder_context)) config.decoder.context = 448;
  PUMICE_TRY(uint32_t mels, settings.u32_or({"num_mel_bins", ""}, 1, 1024, 80));
  if (config.encoder.context > max_positions) {
    return settings.error(names.encoder_context,
                          fmt::format("expected 1 to {}; found {}", max_positions, config.encoder.context));
  }
  config.encoder.kind = InputKind::features;
  config.encoder.input_shape = {mels, 2 * config.encoder.context};
  PUMICE_TRY(bool scaled, settings.boolean_or({"scale_embedding", ""}, false));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Whisper>(std::move(config), settings.gguf(), bart_prefix(file), scaled));
}

} // namespace

Architectures whisper_models() {
  return {{"whisper", {"whisper"}, {}, open_whisper}};
}

} // namespace pumice
