#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernel/convolution/frames.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

constexpr uint32_t width = 7;                  // taps of the convolutions that change no length
constexpr uint32_t dilations[] = {1, 3, 9};    // of a block's residual units
constexpr float snake_least = 1e-9f;
constexpr uint32_t in_quads(uint32_t columns) { return (columns + 3) / 4 * 4; }

struct DacConfig {
  EncoderConfig encoder;
  uint32_t codebook_dim = 8;
  uint32_t decoder_hidden = 1536;
  std::vector<uint32_t> ratios; // of the decoder's blocks

  const SoundCodec& codec() const { return *encoder.codec; }
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
class Dac : public EncoderModel {
public:
  Dac(DacConfig config, bool gguf) : EncoderModel(config.encoder, gguf), own_(std::move(config)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    Frames x = quantised(builder);
    builder.finish(x.tensor);
    builder.prefix("decoder.", "");
    uint32_t channels = own_.decoder_hidden;
    x = convolve(builder, x, {"conv1", ""}, same_length(x.layout, width), channels);
    for (size_t index = 0; index < own_.ratios.size(); ++index) {
      const std::string block = fmt::format("decoder.block.{}.", index);
      builder.prefix(block, "");
      channels /= 2;
      x = snake(builder, x, {"snake1", ""});
      x = convolve(builder, x, {"conv_t1", ""}, upsampling(x.layout, own_.ratios[index]), channels);
      for (uint32_t unit = 0; unit < std::size(dilations); ++unit) {
        builder.prefix(fmt::format("{}res_unit{}.", block, unit + 1), "");
        x = residual_unit(builder, x, dilations[unit]);
      }
    }
    builder.prefix("decoder.", "");
    x = snake(builder, x, {"snake1", ""});
    ConvolveFrames last = same_length(x.layout, width);
    last.activation = Activation::tanh;
    builder.readable().add(SoundCodec::samples, convolve(builder, x, {"conv2", ""}, last, 1).tensor);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const SoundCodec& codec = own_.codec();
    return {{"codebooks", fmt::format("{} of {} codes", codec.codebooks, codec.codes)},
            {"samples of a frame", fmt::format("{} = {}", fmt::join(own_.ratios, " x "), codec.frame)},
            {"sample rate", fmt::format("{}", codec.sample_rate)}};
  }

private:
  // The sum of the projections of each frame's codes: a convolution whose taps are the codebooks.
  Frames quantised(EncoderBuilder& builder) const {
    const SoundCodec& codec = own_.codec();
    const uint64_t dim = own_.codebook_dim, columns = in_quads(own_.codebook_dim), hidden = config().hidden;
    std::vector<WeightView> tables, matrices, biases;
    for (uint32_t book = 0; book < codec.codebooks; ++book) {
      builder.prefix(fmt::format("quantizer.quantizers.{}.", book), "");
      tables.push_back(builder.tensor({"codebook", ""}, ".weight", codec.codes, dim, "embedding"));
      matrices.push_back(builder.flat_tensor({"out_proj", ""}, ".weight", {hidden, dim, 1}, "embedding"));
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
    const WeightView projections = builder.derived_tensor(
        "projections", {codec.codebooks * columns, hidden}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          for (size_t book = 0; book < matrices.size(); ++book) {
            const std::vector<float> from = decode_vector(matrices[book]);
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
    Frames y = snake(builder, x, {"snake1", ""});
    y = convolve(builder, y, {"conv1", ""}, same_length(y.layout, width, dilation), channels);
    y = snake(builder, y, {"snake2", ""});
    y = convolve(builder, y, {"conv2", ""}, same_length(y.layout, 1), channels);
    return {builder.add(x.tensor, y.tensor, "residual"), y.layout};
  }

  static Frames snake(EncoderBuilder& builder, const Frames& x, const TensorName& name) {
    Snake operation;
    operation.channels = x.layout.channels;
    operation.least = snake_least;
    const WeightView alpha = builder.flat_tensor(name, ".alpha", {1, operation.channels, 1}, "convolution");
    return {pumice::snake(builder.graph(), builder.node_name(name), x.tensor, operation,
                          builder.weight(alpha, "convolution")),
            x.layout};
  }

  // With the file's weights, [out, in, taps], or transposed [in, out, taps].
  static Frames convolve(EncoderBuilder& builder, const Frames& x, const TensorName& name,
                         const ConvolveFrames& operation, uint32_t channels) {
    const uint64_t in = x.layout.channels, out = channels, taps = operation.taps;
    const bool transposed = operation.transposed;
    const WeightView from = builder.flat_tensor(name, ".weight", {transposed ? in : out, transposed ? out : in, taps},
                                                "convolution");
    const WeightView bias = builder.tensor(name, ".bias", out, 0, "convolution");
    const uint64_t columns = in_quads(channels);
    const WeightView weight = builder.derived_tensor(
        std::string(name.hugging_face) + ".taps", {taps * in, columns}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          const std::vector<float> values = decode_vector(from);
          for (uint64_t c = 0; c < in; ++c) {
            for (uint64_t o = 0; o < out; ++o) {
              for (uint64_t tap = 0; tap < taps; ++tap)
                to[(tap * in + c) * columns + o] = values[(transposed ? c * out + o : o * in + c) * taps + tap];
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
  SoundCodec& codec = *config.encoder.codec;
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
  SoundCodec codec;
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
  if (config.decoder_hidden % (4u << blocks) != 0) {
    return settings.error({"decoder_hidden_size", ""},
                          fmt::format("expected a multiple of {}, as each of {} blocks has half of the channels "
                                      "of the one before; found {}",
                                      4u << blocks, blocks, config.decoder_hidden));
  }
  EncoderConfig& encoder = config.encoder;
  PUMICE_TRY(encoder.hidden, settings.u32_or({"hidden_size", ""}, 4, limits::columns, first << std::min<size_t>(down.size(), most_blocks)));
  if (encoder.hidden % 4 != 0) {
    return settings.error({"hidden_size", ""},
                          fmt::format("expected a multiple of 4; found {}", encoder.hidden));
  }
  encoder.kind = InputKind::tokens;
  encoder.any_length = true;
  encoder.layers = static_cast<uint32_t>(blocks);
  encoder.vocabulary = codec.codebooks * codec.codes;
  encoder.codec = codec;
  measure(config);
  // About a second.
  encoder.context = codec.codebooks * std::max(1u, codec.sample_rate / encoder.codec->frame);
  return config;
}

OpenedDefinition open_dac(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(DacConfig config, read_dac_config(settings));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Dac>(std::move(config), settings.gguf()));
}

} // namespace

Architectures dac_models() {
  return {{"dac", {"dac"}, {}, open_dac}};
}

} // namespace pumice
