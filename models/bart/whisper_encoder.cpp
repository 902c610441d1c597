#include "models/bart/whisper_encoder.h"

#include <fmt/format.h>

#include "kernel/convolution/convolution.h"
#include "kernel/elementwise/elementwise.h"
#include "models/bart/bart.h"

namespace pumice {

namespace {

constexpr uint32_t convolution_width = 3;
constexpr uint32_t max_positions = 1 << 20; // so that the number of values fits 32 bits
constexpr const char* gguf_prefix = "a.";

LayerNames layer_names(const std::string& prefix) {
  LayerNames names = bart_layer_names("", "encoder");
  names.hugging_face = prefix + "layers.{}.";
  names.gguf = fmt::format("{}blk.{{}}.", gguf_prefix);
  names.norm_first = true;
  names.attention.key_bias = false;
  names.attention.query.gguf = "attn_q";
  names.attention.key.gguf = "attn_k";
  names.attention.value.gguf = "attn_v";
  names.attention.output.gguf = "attn_out";
  names.attention_norm.gguf = "ln1";
  names.up.gguf = "ffn_up";
  names.down.gguf = "ffn_down";
  names.feed_forward_norm.gguf = "ln2";
  return names;
}

TensorId convolve(EncoderBuilder& builder, TensorId x, const TensorName& name, uint32_t channels) {
  const uint32_t hidden = builder.config().hidden;
  const WeightView matrix =
      builder.flat_tensor(name, ".weight", {hidden, channels, convolution_width}, "embedding");
  const WeightView bias = builder.vector_tensor(name, ".bias", hidden, {hidden, 1}, "embedding");
  x = builder.project(x, builder.node_name(name), matrix, &bias, "embedding");
  return activate(builder.graph(), builder.node_name(name) + ".activated", x, Activation::gelu);
}

// Two convolutions turn the log-mel spectrum into the encoder's input and halve the number of frames.
TensorId convolve_features(EncoderBuilder& builder) {
  const EncoderConfig& config = builder.config();
  const TensorName first = {"conv1", "conv1d.1"}, second = {"conv2", "conv1d.2"};
  const TensorId features =
      builder.graph().input("input_features", RowKind::outputs, config.shape().input_values());
  FrameWindows windows;
  windows.channels = config.input_shape[0];
  windows.frames = config.input_shape[1];
  windows.width = convolution_width;
  windows.stride = 2;
  // The first one's results for the even frames, and for the odd ones.
  windows.first = -1;
  const TensorId even = convolve(builder, frame_windows(builder.graph(), "even_frames", features, windows),
                                 first, windows.channels);
  windows.first = 0;
  const TensorId odd = convolve(builder, frame_windows(builder.graph(), "odd_frames", features, windows),
                                first, windows.channels);
  return convolve(builder, pair_windows(builder.graph(), "frame_pairs", even, odd), second, config.hidden);
}

} // namespace

Status set_whisper_input(const Settings& settings, const SettingName& positions, EncoderConfig& config) {
  PUMICE_TRY(const uint32_t mels, settings.u32_or({"num_mel_bins", "audio.num_mel_bins"}, 1, 1024, 80));
  if (config.context > max_positions) {
    return settings.error(positions,
                          fmt::format("expected 1 to {}; found {}", max_positions, config.context));
  }
  config.kind = InputKind::features;
  config.input_shape = {mels, 2 * config.context};
  return {};
}

TensorId run_whisper_encoder(EncoderBuilder& builder, const std::string& prefix) {
  builder.prefix(prefix, gguf_prefix);
  TensorId x = builder.learned_positions(convolve_features(builder), {"embed_positions", "position_embd"});
  x = builder.run_layers(x, layer_names(prefix));
  builder.prefix(prefix, gguf_prefix);
  return x;
}

TensorId whisper_encoder_norm(EncoderBuilder& builder, TensorId x) {
  return builder.layer_norm(x, {"layer_norm", "post_ln"});
}

} // namespace pumice
