#pragma once

#include <optional>

#include "graph/graph.h"
#include "kernel/activation.h"
#include "shaders/convolution/convolve.params.h"

namespace pumice {

// Convolutions over pictures and over the frames of sounds. An input's pixels lie in one row, pixel after
// pixel, each with its channels side by side: [outputs, height * width * channels]. A sound is a picture one
// pixel wide, or its frames are rows of pixels.

// Frames of a sound, of which an input has as many as follow from its samples: the first frame is made of
// `first` of them, and each next one begins `stride` later. The step block has the number of samples as the
// target of an input's first row.
struct SoundFrames {
  uint32_t first = 0; // 0: this is no sound, and all pixels count
  uint32_t stride = 1;
};

// result[y, x, o] = activation(rule(bias[o] + sum over taps and channels of the group of
// input[y * stride + down - padding, x * stride + right - padding, c] * weight[down, right, c, o])),
// with zeros outside. The result's channels, of each group too, are a multiple of four. inputs: x. weights:
// [kernel_height * kernel_width * channels / groups, out_channels], then the bias [out_channels] if there is
// one.
struct Convolve : Operation {
  uint32_t channels = 0;
  uint32_t x_channels = 0; // that lie in x, of which the first are read; 0: those
  uint32_t height = 0, width = 1;
  uint32_t out_channels = 0;
  uint32_t kernel_height = 1, kernel_width = 1;
  uint32_t stride = 1;
  uint32_t padding = 0; // above and below; on both sides too if the kernel is wider than a pixel
  uint32_t groups = 1;
  bool planes = false; // x has one channel's pixels after the other's, as the host gives pictures
  // An input's frames are its rows of the step, x [tokens, channels], and so are the result's, as many: the
  // last one is left out where there is one more.
  bool by_tokens = false;
  enum class Rule : uint32_t {
    as_they_are = CONVOLVE_AS_THEY_ARE,
    roots = CONVOLVE_ROOTS,
    logarithms = CONVOLVE_LOGARITHMS, // of what is at least `least`
  };
  Rule rule = Rule::as_they_are;
  float least = 0;
  Activation activation = Activation::none;
  SoundFrames sound;   // of the result
  SoundFrames x_sound; // of x, where windows reach beyond its last frame

  uint32_t pixel_channels() const { return x_channels > 0 ? x_channels : channels; }
  uint32_t out_height() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  uint32_t padding_across() const { return kernel_width > 1 ? padding : 0; }
  uint32_t out_width() const { return (width + 2 * padding_across() - kernel_width) / stride + 1; }
  std::string_view name() const override { return "convolve"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// The largest number, or the mean, of each window, channel by channel; what is outside of the picture does
// not count. inputs: x.
struct PoolPixels : Operation {
  uint32_t channels = 0; // a multiple of four
  uint32_t height = 0, width = 0;
  uint32_t window_height = 1, window_width = 1;
  uint32_t stride = 1;
  uint32_t padding = 0;
  bool mean = false;

  uint32_t out_height() const { return (height + 2 * padding - window_height) / stride + 1; }
  uint32_t out_width() const { return (width + 2 * padding - window_width) / stride + 1; }
  std::string_view name() const override { return "pool_pixels"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// A group norm (Wu and He 2018) whose groups are single channels, or one group of all: result = activation((x
// - mean) / sqrt(variance + eps) * weight + bias), with a group's mean and variance over the input's frames.
// inputs: x [outputs, frames * channels]. weights: weight and bias, both [channels].
struct NormFrames : Operation {
  uint32_t channels = 0; // a multiple of four
  bool whole = false;    // all are one group
  bool so_far = false;   // with `whole`: of a frame and those before it, each around its own mean
  // x is the energy in bands of a spectrum: result = (y - mean) / (sqrt(variance) + eps) * weight + bias of y
  // = log(x + least), with the sum of squares over one less than the frames, as NeMo has it.
  bool spectrum = false;
  float least = 0;
  float eps = 0;
  Activation activation = Activation::none;
  SoundFrames sound;

  std::string_view name() const override { return "norm_frames"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Each channel by itself: result[y, x, c] = bias[c] + sum over taps of input[y + down - kernel / 2, x + right
// - kernel / 2, c] * weight[tap, c], with zeros outside. inputs: x. weights: [kernel * kernel, channels], the
// bias [channels].
struct ConvolveChannels : Operation {
  uint32_t channels = 0; // a multiple of four
  uint32_t height = 0, width = 0;
  uint32_t kernel = 3; // odd

  std::string_view name() const override { return "convolve_channels"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Channels of a group attend to each other over all pixels (Ding et al., DaViT, 2022): channel i's result is
// the values of its group's channels, with shares softmax(scale * sum over pixels of query_i * key_j).
// inputs: queries, keys, values [outputs, pixels * channels].
struct ChannelAttention : Operation {
  uint32_t channels = 0;
  uint32_t groups = 1; // each of a multiple of four channels
  float scale = 1;

  std::string_view name() const override { return "channel_attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// The rows of the step are an input's frames. inputs: x [outputs, frames * columns], then, if it is not all
// rows that are frames, what those behind them are [tokens, columns]. output: [tokens, columns].
struct FrameRows : Operation {
  uint32_t columns = 0; // a multiple of four
  std::string_view name() const override { return "frame_rows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId convolve(Graph& graph, std::string name, TensorId x, const Convolve& operation, WeightId weight,
                  std::optional<WeightId> bias);
TensorId pool_pixels(Graph& graph, std::string name, TensorId x, const PoolPixels& operation);
TensorId norm_frames(Graph& graph, std::string name, TensorId x, const NormFrames& operation, WeightId weight,
                     WeightId bias);
TensorId convolve_channels(Graph& graph, std::string name, TensorId x, const ConvolveChannels& operation,
                           WeightId weight, WeightId bias);
TensorId channel_attention(Graph& graph, std::string name, TensorId query, TensorId key, TensorId value,
                           const ChannelAttention& operation);
TensorId frame_rows(Graph& graph, std::string name, TensorId x, uint32_t columns,
                    std::optional<TensorId> rest = {});

} // namespace pumice
