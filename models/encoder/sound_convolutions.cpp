#include "models/encoder/sound_convolutions.h"

#include "kernel/elementwise/elementwise.h"
#include "kernel/norm/norm.h"

namespace pumice {

void transpose_taps(std::span<const float> from, uint64_t out, uint64_t channels, uint64_t taps,
                    std::span<float> to) {
  for (uint64_t o = 0; o < out; ++o) {
    for (uint64_t c = 0; c < channels; ++c) {
      for (uint64_t tap = 0; tap < taps; ++tap)
        to[(tap * channels + c) * out + o] = from[(o * channels + c) * taps + tap];
    }
  }
}

SoundConvolutions::SoundConvolutions(EncoderBuilder& builder)
    : builder_(builder),
      x_(builder.graph().input("input_values", RowKind::outputs, builder.config().input_shape[0])),
      frames_(builder.config().input_shape[0]) {}

void SoundConvolutions::convolve(const TensorName& name, uint32_t out, bool bias, Activation activation) {
  const FrameConvolution& shape = builder_.config().convolutions[next_++];
  const WeightView matrix = builder_.flat_tensor(name, ".weight", {out, channels_, shape.width}, "embedding");
  const WeightView taps = builder_.derived_tensor(
      std::string(name.hugging_face) + ".taps", {uint64_t{shape.width} * channels_, out},
      [&](std::span<float> to) { transpose_taps(decode_vector(matrix), out, channels_, shape.width, to); });
  std::optional<WeightId> added;
  if (bias) added = builder_.weight(builder_.tensor(name, ".bias", out, 0, "embedding"), "embedding");
  Convolve operation;
  operation.channels = channels_;
  operation.height = frames_;
  operation.out_channels = out;
  operation.kernel_height = shape.width;
  operation.stride = shape.stride;
  sound_.first += (shape.width - 1) * sound_.stride;
  sound_.stride *= shape.stride;
  operation.sound = sound_;
  operation.activation = activation;
  x_ = pumice::convolve(builder_.graph(), builder_.node_name(name), x_, operation,
                        builder_.weight(taps, "embedding"), added);
  channels_ = out;
  frames_ = operation.out_height();
}

WeightId SoundConvolutions::norm_weight(const TensorName& name, std::string_view suffix) {
  return builder_.weight(builder_.tensor(name, suffix, channels_, 0, "norms"), "norms");
}

void SoundConvolutions::norm_frames(const TensorName& name, bool whole, Activation activation) {
  const WeightId weight = norm_weight(name, ".weight"), bias = norm_weight(name, ".bias");
  NormFrames operation;
  operation.channels = channels_;
  operation.whole = whole;
  operation.eps = eps;
  operation.activation = activation;
  operation.sound = sound_;
  x_ = pumice::norm_frames(builder_.graph(), builder_.node_name(name), x_, operation, weight, bias);
}

void SoundConvolutions::norm_each(const TensorName& name, Activation activation) {
  const WeightId weight = norm_weight(name, ".weight"), bias = norm_weight(name, ".bias");
  Graph& graph = builder_.graph();
  x_ = grouped_layer_norm(graph, builder_.node_name(name), x_, weight, bias, frames_, eps);
  x_ = activate(graph, builder_.node_name(name) + ".activated", x_, activation);
}

TensorId SoundConvolutions::rows() const {
  return frame_rows(builder_.graph(), "frames", x_, channels_);
}

} // namespace pumice
