#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernel/convolution/frames.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "model/sound_codec.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

constexpr uint32_t width = 7;               // taps of the convolutions that change no length
constexpr uint32_t dilations[] = {1, 3, 9}; // of a block's residual units
constexpr float snake_least = 1e-9f;
constexpr uint32_t in_quads(uint32_t columns) {
  return (columns + 3) / 4 * 4;
}

// What files call the decoder's parts. As it was published, their numbers in torch.nn.Sequential.
struct DacNames {
  bool published = false;

  std::string top() const { return published ? "decoder.model." : "decoder."; }
  std::string first() const { return published ? "0" : "conv1"; }
  std::string last_snake(size_t blocks) const { return published ? fmt::format("{}", blocks + 1) : "snake1"; }
  std::string last(size_t blocks) const { return published ? fmt::format("{}", blocks + 2) : "conv2"; }
  std::string block(size_t index) const {
    return published ? fmt::format("decoder.model.{}.block.", index + 1)
                     : fmt::format("decoder.block.{}.", index);
  }
  std::string up() const { return published ? "1" : "conv_t1"; }
  std::string unit(size_t index) const {
    return published ? fmt::format("{}.block.", index + 2) : fmt::format("res_unit{}.", index + 1);
  }
  // Of a block, or of a unit, whose convolutions come after them.
  std::string snake(size_t index) const {
    return published ? fmt::format("{}", 2 * index) : fmt::format("snake{}", index + 1);
  }
  std::string convolution(size_t index) const {
    return published ? fmt::format("{}", 2 * index + 1) : fmt::format("conv{}", index + 1);
  }
};

struct DacConfig {
  EncoderConfig encoder;
  SoundCodec codec;
  DacNames names;
  uint32_t codebook_dim = 8;
  uint32_t decoder_hidden = 1536;
  std::vector<uint32_t> ratios; // of the decoder's blocks
};

// Frames on the device.
struct Frames {
  TensorId tensor = 0;
  FrameLayout layout;
};

ConvolveFrames same_length(const FrameLayout& x, uint32_t taps, uint32_t dilation = 1) {
  ConvolveFrames operation;
  operation.x = x;
  operation.taps = taps;
  operation.dilation = dilation;
  operation.padding = dilation * (taps - 1) / 2;
  return operation;
}

ConvolveFrames upsampling(const FrameLayout& x, uint32_t ratio) {
  ConvolveFrames operation;
  operation.x = x;
  operation.taps = 2 * ratio;
  operation.stride = ratio;
  operation.padding = (ratio + 1) / 2;
  operation.transposed = true;
  return operation;
}

// DAC (Kumar et al., High-Fidelity Audio Compression with Improved RVQGAN, 2023), its decoder: the sum of the
// codes' vectors, then blocks of a transposed convolution and three residual units of dilated ones, up to a
// sound's samples.
class Dac : public EncoderModel, public SoundCodecModel {
public:
  Dac(DacConfig config, bool gguf) : EncoderModel(config.encoder, gguf), own_(std::move(config)) {}

  const SoundCodec& codec() const override { return own_.codec; }

protected:
  void build(EncoderBuilder& builder) const override {
    const DacNames& names = own_.names;
    const size_t blocks = own_.ratios.size();
    Frames x = quantised(builder);
    builder.finish(x.tensor);
    builder.prefix(names.top(), "");
    uint32_t channels = own_.decoder_hidden;
    x = convolve(builder, x, names.first(), same_length(x.layout, width), channels);
    for (size_t index = 0; index < blocks; ++index) {
      builder.prefix(names.block(index), "");
      channels /= 2;
      x = snake(builder, x, names.snake(0));
      x = convolve(builder, x, names.up(), upsampling(x.layout, own_.ratios[index]), channels);
      for (size_t unit = 0; unit < std::size(dilations); ++unit) {
        builder.prefix(names.block(index) + names.unit(unit), "");
        x = residual_unit(builder, x, dilations[unit]);
      }
    }
    builder.prefix(names.top(), "");
    x = snake(builder, x, names.last_snake(blocks));
    ConvolveFrames last = same_length(x.layout, width);
    last.activation = Activation::tanh;
    builder.readable().add(SoundCodec::samples, convolve(builder, x, names.last(blocks), last, 1).tensor);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const SoundCodec& codec = own_.codec;
    return {{"codebooks", fmt::format("{} of {} codes", codec.codebooks, codec.codes)},
            {"samples of a frame", fmt::format("{} = {}", fmt::join(own_.ratios, " x "), codec.frame)},
            {"sample rate", fmt::format("{}", codec.sample_rate)}};
  }

private:
  // The sum of the projections of each frame's codes: a convolution whose taps are the codebooks.
  Frames quantised(EncoderBuilder& builder) const {
    const SoundCodec& codec = own_.codec;
    const uint64_t dim = own_.codebook_dim, columns = in_quads(own_.codebook_dim), hidden = config().hidden;
    std::vector<WeightView> tables, biases;
    std::vector<Values> matrices;
    for (uint32_t book = 0; book < codec.codebooks; ++book) {
      builder.prefix(fmt::format("quantizer.quantizers.{}.", book), "");
      tables.push_back(builder.tensor({"codebook", ""}, ".weight", codec.codes, dim, "embedding"));
      matrices.push_back(kernel(builder, {"out_proj", ""}, {hidden, dim, 1}));
      biases.push_back(builder.tensor({"out_proj", ""}, ".bias", hidden, 0, "embedding"));
    }
    builder.prefix("quantizer.", "");
    const WeightView table = builder.derived_tensor(
        "codebooks", {uint64_t{codec.codebooks} * codec.codes, columns}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          for (size_t book = 0; book < tables.size(); ++book) {
            const std::vector<float> from = decode_vector(tables[book]);
            for (size_t code = 0; code < codec.codes; ++code)
              std::copy_n(&from[code * dim], dim, &to[(book * codec.codes + code) * columns]);
          }
        });
    const WeightView projections =
        builder.derived_tensor("projections", {codec.codebooks * columns, hidden}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          for (size_t book = 0; book < matrices.size(); ++book) {
            const std::vector<float> from = matrices[book]();
            for (size_t row = 0; row < hidden; ++row) {
              for (size_t c = 0; c < dim; ++c) to[(book * columns + c) * hidden + row] = from[row * dim + c];
            }
          }
        });
    const WeightView bias = builder.derived_tensor("bias", {hidden}, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      for (const WeightView& each : biases) {
        const std::vector<float> from = decode_vector(each);
        for (size_t row = 0; row < hidden; ++row) to[row] += from[row];
      }
    });
    Frames x{embedding(builder.graph(), "codes", builder.weight(table, "embedding")), {}};
    x.layout.rows = x.layout.rate = codec.codebooks;
    x.layout.channels = static_cast<uint32_t>(columns);
    ConvolveFrames operation = same_length(x.layout, 1);
    operation.taps = operation.stride = codec.codebooks;
    return add(builder, "quantizer.sum", x, operation, config().hidden, projections, bias);
  }

  Frames residual_unit(EncoderBuilder& builder, const Frames& x, uint32_t dilation) const {
    const uint32_t channels = x.layout.channels;
    const DacNames& names = own_.names;
    Frames y = snake(builder, x, names.snake(0));
    y = convolve(builder, y, names.convolution(0), same_length(y.layout, width, dilation), channels);
    y = snake(builder, y, names.snake(1));
    y = convolve(builder, y, names.convolution(1), same_length(y.layout, 1), channels);
    return {builder.add(x.tensor, y.tensor, "residual"), y.layout};
  }

  // The weights of a convolution in the file's order. As they were published, they are directions and
  // lengths, a length for each of the first dimension (Salimans and Kingma, Weight Normalization, 2016).
  using Values = std::function<std::vector<float>()>;
  Values kernel(EncoderBuilder& builder, const TensorName& name, const std::vector<uint64_t>& shape) const {
    if (!own_.names.published) {
      const WeightView weight = builder.flat_tensor(name, ".weight", shape, "convolution");
      return [weight] { return decode_vector(weight); };
    }
    const WeightView directions = builder.flat_tensor(name, ".weight_v", shape, "convolution"),
                     lengths = builder.flat_tensor(name, ".weight_g", {shape[0], 1, 1}, "convolution");
    const size_t rows = shape[0], each = shape[1] * shape[2];
    return [=] {
      std::vector<float> values = decode_vector(directions);
      const std::vector<float> length = decode_vector(lengths);
      for (size_t row = 0; row < rows; ++row) {
        const std::span<float> own = std::span(values).subspan(row * each, each);
        double squares = 0;
        for (const float value : own) squares += double{value} * value;
        for (float& value : own) value = static_cast<float>(value / std::sqrt(squares) * length[row]);
      }
      return values;
    };
  }

  static Frames snake(EncoderBuilder& builder, const Frames& x, const std::string& own_name) {
    const TensorName name = {own_name, ""};
    Snake operation;
    operation.channels = x.layout.channels;
    operation.least = snake_least;
    const WeightView alpha = builder.flat_tensor(name, ".alpha", {1, operation.channels, 1}, "convolution");
    return {pumice::snake(builder.graph(), builder.node_name(name), x.tensor, operation,
                          builder.weight(alpha, "convolution")),
            x.layout};
  }

  // With the file's weights, [out, in, taps], or transposed [in, out, taps].
  Frames convolve(EncoderBuilder& builder, const Frames& x, const std::string& own_name,
                  const ConvolveFrames& operation, uint32_t channels) const {
    const TensorName name = {own_name, ""};
    const uint64_t in = x.layout.channels, out = channels, taps = operation.taps;
    const bool transposed = operation.transposed;
    const Values from = kernel(builder, name, {transposed ? in : out, transposed ? out : in, taps});
    const WeightView bias = builder.tensor(name, ".bias", out, 0, "convolution");
    const uint64_t columns = in_quads(channels);
    const WeightView weight =
        builder.derived_tensor(own_name + ".taps", {taps * in, columns}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          const std::vector<float> values = from();
          for (uint64_t c = 0; c < in; ++c) {
            for (uint64_t o = 0; o < out; ++o) {
              for (uint64_t tap = 0; tap < taps; ++tap)
                to[(tap * in + c) * columns + o] =
                    values[(transposed ? c * out + o : o * in + c) * taps + tap];
            }
          }
        });
    return add(builder, builder.node_name(name), x, operation, channels, weight, bias);
  }

  static Frames add(EncoderBuilder& builder, std::string name, const Frames& x, ConvolveFrames operation,
                    uint32_t channels, const WeightView& weight, const WeightView& bias) {
    if (Status set = operation.set_result(channels); !set.ok()) builder.fail(set.error());
    return {convolve_frames(builder.graph(), std::move(name), x.tensor, operation,
                            builder.weight(weight, "convolution"), builder.weight(bias, "convolution")),
            operation.result};
  }

  const DacConfig own_;
};

// What follows from the blocks' ratios.
void measure(DacConfig& config) {
  SoundCodec& codec = config.codec;
  codec.frame = 1;
  for (const uint32_t ratio : config.ratios) {
    codec.frame *= ratio;
    codec.lacking = codec.lacking * ratio + ratio % 2; // transposed convolutions make no more
  }
  const FrameLayout any;
  codec.reach = same_length(any, width).reach();
  for (auto ratio = config.ratios.rbegin(); ratio != config.ratios.rend(); ++ratio) {
    for (const uint32_t dilation : dilations) codec.reach += same_length(any, width, dilation).reach();
    codec.reach = (codec.reach + *ratio - 1) / *ratio + upsampling(any, *ratio).reach();
  }
  codec.reach += same_length(any, width).reach();
}

Result<DacConfig> read_dac_config(const Settings& settings) {
  DacConfig config;
  SoundCodec& codec = config.codec;
  PUMICE_TRY(codec.codebooks, settings.u32_or({"n_codebooks", ""}, 1, 256, 9));
  PUMICE_TRY(codec.codes, settings.u32_or({"codebook_size", ""}, 1, limits::tokens / 256, 1024));
  PUMICE_TRY(codec.sample_rate, settings.u32_or({"sampling_rate", ""}, 1, 768'000, 16'000));
  PUMICE_TRY(config.codebook_dim, settings.u32_or({"codebook_dim", ""}, 1, 4096, 8));
  PUMICE_TRY(config.decoder_hidden, settings.u32_or({"decoder_hidden_size", ""}, 4, 1 << 14, 1536));
  PUMICE_TRY(const uint32_t first, settings.u32_or({"encoder_hidden_size", ""}, 1, 4096, 64));
  constexpr size_t most_blocks = 8;
  PUMICE_TRY(std::vector<uint32_t> down, settings.fields().u32_array_or_empty("downsampling_ratios", 2, 64));
  if (down.empty()) down = {2, 4, 8, 8};
  PUMICE_TRY(config.ratios, settings.fields().u32_array_or_empty("upsampling_ratios", 2, 64));
  if (config.ratios.empty()) config.ratios.assign(down.rbegin(), down.rend());
  const auto blocks = config.ratios.size();
  if (blocks > most_blocks) {
    return settings.error({"upsampling_ratios", ""},
                          fmt::format("expected at most {}; found {}", most_blocks, blocks));
  }
  constexpr uint64_t most_frame = 1 << 16;
  uint64_t frame = 1;
  for (const uint32_t ratio : config.ratios) frame *= ratio; // at most 2^48
  if (frame > most_frame) {
    return settings.error({"upsampling_ratios", ""},
                          fmt::format("expected a product of at most {}; found {}", most_frame, frame));
  }
  if (config.decoder_hidden % (4u << blocks) != 0) {
    return settings.error(
        {"decoder_hidden_size", ""},
        fmt::format("expected a multiple of {}, as each of {} blocks has half of the channels "
                    "of the one before; found {}",
                    4u << blocks, blocks, config.decoder_hidden));
  }
  EncoderConfig& encoder = config.encoder;
  PUMICE_TRY(encoder.hidden, settings.u32_or({"hidden_size", ""}, 4, limits::columns,
                                             first << std::min<size_t>(down.size(), most_blocks)));
  if (encoder.hidden % 4 != 0) {
    return settings.error({"hidden_size", ""},
                          fmt::format("expected a multiple of 4; found {}", encoder.hidden));
  }
  encoder.kind = InputKind::tokens;
  encoder.any_length = true;
  encoder.layers = static_cast<uint32_t>(blocks);
  encoder.vocabulary = codec.codebooks * codec.codes;
  measure(config);
  // About a second.
  encoder.context = codec.codebooks * std::max(1u, codec.sample_rate / codec.frame);
  return config;
}

OpenedDefinition open_dac(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(DacConfig config, read_dac_config(settings));
  config.names.published = file.find("decoder.model.0.weight_v") != nullptr;
  return std::unique_ptr<ModelDefinition>(std::make_unique<Dac>(std::move(config), settings.gguf()));
}

} // namespace

Architectures dac_models() {
  return {{"dac", {"dac"}, {}, open_dac}};
}

} // namespace pumice
