#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "io/mapped_file.h"
#include "kernel/attention/position_scores.h"
#include "kernel/audio/log_mel.h"
#include "kernel/convolution/pictures.h"
#include "kernel/elementwise/elementwise.h"
#include "models/encoder/batch_norm.h"
#include "models/encoder/model.h"
#include "models/encoder/sound_convolutions.h"
#include "models/registry.h"

namespace pumice {

namespace {

// How the features are made of samples, as NeMo has it.
struct Spectrum {
  LogMelShape mel;
  uint32_t window = 400; // samples of a frame, in the middle of mel.n_fft
  float preemphasis = 0.97f;
  static constexpr float least = 0x1p-24f; // added to the energy in a band
  static constexpr float eps = 1e-5f;      // to a band's deviation
};

struct ParakeetConfig {
  // Of an input: 30 seconds. The relative positions' tables grow with it.
  static constexpr uint32_t most_samples = 480000;
  static constexpr float batch_norm_eps = 1e-5f; // torch's

  EncoderConfig encoder;
  Spectrum spectrum;
  uint32_t subsampling_layers = 3; // convolutions before the first layer
  uint32_t subsampling_channels = 256;
  uint32_t subsampling_width = 3; // of their kernels, which are square
  uint32_t subsampling_stride = 2;
  uint32_t convolution_width = 9; // frames of a layer's convolution
  bool convolution_bias = true;
  bool bias = true; // of attention and feed-forward
  bool scales_input = true;
  uint32_t vocabulary = 0;
  // Of a transducer, which reads the frames' projections (speech/transducer.h); otherwise there is a head.
  uint32_t transducer_columns = 0;
  uint32_t transducer_layers = 0;
  uint32_t durations = 0;
};

// Parakeet (NVIDIA 2024): a Fast Conformer (Rekesh et al. 2023) with a head for tokens that a connectionist
// temporal classification reads, or a transducer. Convolutions make an eighth of the frames of a spectrum,
// which the graph computes of a sound's samples. A layer has attention with the relative positions of
// Transformer-XL (Dai et al. 2019) and a convolution over frames between the halves of its feed-forward.
class Parakeet : public EncoderModel {
public:
  Parakeet(ParakeetConfig config, bool gguf) : EncoderModel(config.encoder, gguf), own_(std::move(config)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = subsample(builder, make_features(builder));
    AttentionStyle style;
    style.score_scale = score_scale();
    style.relative_bias = {2 * span(), span(), false, false, true};
    style.relative_scores = [&](uint32_t layer, const AttentionInputs& inputs) {
      return scores(builder, layer, inputs);
    };
    for (uint32_t index = 0; index < config().layers; ++index) {
      builder.hidden_state(x);
      builder.layer(index, layer_prefix);
      x = half(builder, x, "norm_feed_forward1", "feed_forward1");
      x = builder.add(attention(builder, index, builder.layer_norm(x, {"norm_self_att", ""}), style), x,
                      "attention_residual");
      x = builder.add(convolution(builder, builder.layer_norm(x, {"norm_conv", ""})), x,
                      "convolution_residual");
      x = half(builder, x, "norm_feed_forward2", "feed_forward2");
      x = builder.layer_norm(x, {"norm_out", ""});
    }
    builder.finish(x);
    builder.prefix("", "");
    if (own_.transducer_columns > 0) return project_for_transducer(builder, x);
    const TensorName head = {"ctc_head", ""};
    const WeightView matrix =
        builder.flat_tensor(head, ".weight", {own_.vocabulary, config().hidden, 1}, "head");
    const WeightView bias = builder.tensor(head, ".bias", own_.vocabulary, 0, "head");
    builder.readable().add("logits", builder.project(x, "ctc_head", matrix, &bias, "head"));
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"vocabulary", fmt::format("{}", own_.vocabulary)},
            {"bands of the spectrum", fmt::format("{}", own_.spectrum.mel.mels)},
            {"convolution", fmt::format("{} frames", own_.convolution_width)}};
  }

  std::vector<std::string_view> host_weights() const override {
    return {"decoder.embedding.", "decoder.lstm.", "decoder.decoder_projector.", "joint.head."};
  }

private:
  static constexpr const char* layer_prefix = "encoder.layers.{}.";

  float score_scale() const { return 1 / std::sqrt(static_cast<float>(config().head_dim)); }
  uint32_t span() const { return config().context; } // distances each way, with that to itself

  // What the host computes with the frames' projections is looked up and checked here too.
  void project_for_transducer(EncoderBuilder& builder, TensorId x) const {
    const uint64_t columns = own_.transducer_columns;
    const TensorName projector = {"encoder_projector", ""}, text = {"decoder.decoder_projector", ""},
                     joint = {"joint.head", ""};
    builder.readable().add("transducer_frames",
                           builder.project(x, projector, own_.transducer_columns, true, "head"));
    (void)builder.tensor({"decoder.embedding", ""}, ".weight", own_.vocabulary, columns, "head");
    for (uint32_t layer = 0; layer < own_.transducer_layers; ++layer) {
      for (const char* part : {"ih", "hh"}) {
        const std::string matrix = fmt::format("decoder.lstm.weight_{}_l{}", part, layer),
                          bias = fmt::format("decoder.lstm.bias_{}_l{}", part, layer);
        (void)builder.tensor({matrix, ""}, "", 4 * columns, columns, "head");
        (void)builder.tensor({bias, ""}, "", 4 * columns, 0, "head");
      }
    }
    for (const auto& [name, rows] : {std::pair(text, columns), {joint, own_.vocabulary + own_.durations}}) {
      (void)builder.tensor(name, ".weight", rows, columns, "head");
      (void)builder.tensor(name, ".bias", rows, 0, "head");
    }
  }

  // ---- from samples to features ----

  // A convolution of the spectrum's, whose weights are computed.
  TensorId convolve_with(EncoderBuilder& builder, const char* name, TensorId x, const Convolve& operation,
                         const std::function<void(std::span<float>)>& fill) const {
    const uint64_t taps = uint64_t{operation.kernel_height} * operation.channels;
    const WeightView view =
        builder.derived_tensor(std::string(name) + ".taps", {taps, operation.out_channels}, fill);
    return convolve(builder.graph(), name, x, operation, builder.weight(view, "embedding"), {});
  }

  // x[n] - preemphasis * x[n - 1], in the first of four channels.
  TensorId emphasise(EncoderBuilder& builder) const {
    const uint32_t samples = config().input_shape[0];
    Convolve operation;
    operation.channels = 1;
    operation.height = samples;
    operation.out_channels = 4;
    operation.kernel_height = 3;
    operation.padding = 1;
    operation.sound = operation.x_sound = {1, 1};
    const TensorId x = builder.graph().input("input_values", RowKind::outputs, samples);
    return convolve_with(builder, "emphasised", x, operation, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      to[0] = -own_.spectrum.preemphasis;
      to[4] = 1;
    });
  }

  // The Fourier transform of each frame under a Hann window: a convolution to the real parts of all
  // frequencies, then the imaginary ones.
  TensorId transform(EncoderBuilder& builder, TensorId x) const {
    const Spectrum& spectrum = own_.spectrum;
    const uint32_t bins = spectrum.mel.bins(), width = spectrum.window;
    Convolve operation;
    operation.channels = 1;
    operation.x_channels = 4;
    operation.height = config().input_shape[0];
    operation.out_channels = spectrum_columns();
    operation.kernel_height = width;
    operation.stride = spectrum.mel.hop;
    operation.padding = width / 2;
    operation.x_sound = {1, 1};
    operation.sound = frames();
    return convolve_with(builder, "transformed", x, operation, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      for (uint32_t n = 0; n < width; ++n) {
        const double window = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * n / (width - 1));
        for (uint32_t k = 0; k < bins; ++k) {
          const uint64_t turn = uint64_t{n} * k % spectrum.mel.n_fft;
          const double angle = 2 * std::numbers::pi * static_cast<double>(turn) / spectrum.mel.n_fft;
          float* row = &to[size_t{n} * operation.out_channels];
          row[k] = static_cast<float>(window * std::cos(angle));
          row[bins + k] = static_cast<float>(window * std::sin(angle));
        }
      }
    });
  }

  uint32_t spectrum_columns() const { return (2 * own_.spectrum.mel.bins() + 3) / 4 * 4; }
  SoundFrames frames() const { return {own_.spectrum.mel.hop, own_.spectrum.mel.hop}; }
  uint32_t frame_room() const { return config().input_shape[0] / own_.spectrum.mel.hop + 1; }

  // The logarithms of the energies in bands, each band normalised over the frames.
  TensorId make_features(EncoderBuilder& builder) const {
    builder.prefix("spectrum.", "");
    const LogMelShape& mel = own_.spectrum.mel;
    const TensorId parts = transform(builder, emphasise(builder));
    const TensorId energy = gate(builder.graph(), "energy", parts, parts, Activation::none);
    Convolve bands;
    bands.channels = spectrum_columns();
    bands.height = frame_room();
    bands.out_channels = mel.mels;
    bands.sound = frames();
    const TensorId x = convolve_with(builder, "bands", energy, bands, [&](std::span<float> to) {
      const std::vector<double> filters = mel_filters(mel);
      std::ranges::fill(to, 0.0f);
      for (uint32_t band = 0; band < mel.mels; ++band) {
        for (uint32_t k = 0; k < mel.bins(); ++k) {
          for (const uint32_t part : {k, mel.bins() + k})
            to[size_t{part} * mel.mels + band] = static_cast<float>(filters[size_t{band} * mel.bins() + k]);
        }
      }
    });
    const auto constant = [&](const char* name, float value) {
      const WeightView view = builder.derived_tensor(
          name, {mel.mels}, [value](std::span<float> to) { std::ranges::fill(to, value); });
      return builder.weight(view, "norms");
    };
    NormFrames norm;
    norm.channels = mel.mels;
    norm.spectrum = true;
    norm.least = Spectrum::least;
    norm.eps = Spectrum::eps;
    norm.sound = frames();
    return norm_frames(builder.graph(), "features", x, norm, constant("ones", 1), constant("zeros", 0));
  }

  // ---- from features to the layers' input ----

  // The first convolution of the subsampling, or one of the others: those are of each channel by itself, then
  // of all channels of a pixel, with nothing between, which makes one product of the two.
  TensorId subsampling_convolution(EncoderBuilder& builder, uint32_t layer, TensorId x,
                                   Convolve operation) const {
    const uint64_t out = own_.subsampling_channels, width = own_.subsampling_width, taps = width * width;
    const uint64_t in = operation.channels;
    const std::string first_name = fmt::format("{}", layer == 0 ? 0 : 3 * layer - 1);
    const TensorName first = {first_name, ""};
    const WeightView kernel = builder.flat_tensor(first, ".weight", {out, 1, width, width}, "embedding");
    const WeightView shift = builder.tensor(first, ".bias", out, 0, "embedding");
    if (layer == 0) {
      const WeightView view =
          builder.derived_tensor(first_name + ".taps", {taps, out}, [&](std::span<float> to) {
            transpose_taps(decode_vector(kernel), out, 1, taps, to);
          });
      return convolve(builder.graph(), builder.node_name(first), x, operation,
                      builder.weight(view, "embedding"), builder.weight(shift, "embedding"));
    }
    const std::string mixed_name = fmt::format("{}", 3 * layer);
    const TensorName mixed = {mixed_name, ""};
    const WeightView mix = builder.flat_tensor(mixed, ".weight", {out, in, 1, 1}, "embedding");
    const WeightView mix_shift = builder.tensor(mixed, ".bias", out, 0, "embedding");
    const WeightView view =
        builder.derived_tensor(mixed_name + ".taps", {taps * in, out}, [&](std::span<float> to) {
          const std::vector<float> each = decode_vector(kernel), all = decode_vector(mix);
          for (uint64_t tap = 0; tap < taps; ++tap) {
            for (uint64_t c = 0; c < in; ++c) {
              for (uint64_t o = 0; o < out; ++o)
                to[(tap * in + c) * out + o] = each[c * taps + tap] * all[o * in + c];
            }
          }
        });
    const WeightView bias = builder.derived_tensor(mixed_name + ".shift", {out}, [&](std::span<float> to) {
      const std::vector<float> each = decode_vector(shift), all = decode_vector(mix),
                               own = decode_vector(mix_shift);
      for (uint64_t o = 0; o < out; ++o) {
        double sum = own[o];
        for (uint64_t c = 0; c < in; ++c) sum += double{all[o * in + c]} * each[c];
        to[o] = static_cast<float>(sum);
      }
    });
    return convolve(builder.graph(), builder.node_name(mixed), x, operation,
                    builder.weight(view, "embedding"), builder.weight(bias, "embedding"));
  }

  TensorId subsample(EncoderBuilder& builder, TensorId x) const {
    builder.prefix("encoder.subsampling.layers.", "");
    Convolve operation;
    operation.channels = 1;
    operation.height = frame_room();
    operation.width = own_.spectrum.mel.mels;
    operation.out_channels = own_.subsampling_channels;
    operation.kernel_height = operation.kernel_width = own_.subsampling_width;
    operation.stride = own_.subsampling_stride;
    operation.padding = own_.subsampling_width / 2;
    operation.activation = Activation::relu;
    operation.sound = frames();
    for (uint32_t layer = 0; layer < own_.subsampling_layers; ++layer) {
      operation.x_sound = operation.sound;
      operation.sound.stride *= own_.subsampling_stride;
      x = subsampling_convolution(builder, layer, x, operation);
      operation.height = operation.out_height();
      operation.width = operation.out_width();
      operation.channels = own_.subsampling_channels;
    }
    const uint64_t bands = operation.width, channels = own_.subsampling_channels, hidden = config().hidden;
    x = frame_rows(builder.graph(), "frames", x, static_cast<uint32_t>(bands * channels));
    builder.prefix("encoder.subsampling.", "");
    const TensorName linear = {"linear", ""};
    const WeightView matrix = builder.tensor(linear, ".weight", hidden, bands * channels, "embedding");
    const WeightView bias = builder.tensor(linear, ".bias", hidden, 0, "embedding");
    // The file has a channel's bands side by side, a row of the frames has a band's channels.
    const WeightView view =
        builder.derived_tensor("linear.by_bands", {hidden, bands * channels}, [&](std::span<float> to) {
          const std::vector<float> from = decode_vector(matrix);
          for (uint64_t row = 0; row < hidden; ++row) {
            for (uint64_t i = 0; i < bands * channels; ++i)
              to[row * bands * channels + i] =
                  from[row * bands * channels + i % channels * bands + i / channels];
          }
        });
    x = builder.project(x, builder.node_name(linear), view, &bias, "embedding");
    if (!own_.scales_input) return x;
    return scale(builder.graph(), "scaled_input", x, std::sqrt(static_cast<float>(hidden)));
  }

  // ---- a layer ----

  // x + half of a feed-forward.
  TensorId half(EncoderBuilder& builder, TensorId x, const std::string& norm, const std::string& name) const {
    const std::string up = name + ".linear1", down = name + ".linear2", component = "feed-forward";
    TensorId y = builder.layer_norm(x, {norm, ""});
    y = builder.project(y, {up, ""}, config().feed_forward, own_.bias, component);
    y = activate(builder.graph(), builder.prefix() + name + ".activated", y, config().activation);
    y = builder.project(y, {down, ""}, config().hidden, own_.bias, component);
    y = scale(builder.graph(), builder.prefix() + name + ".halved", y, 0.5f);
    return builder.add(y, x, name + ".residual");
  }

  // A layer's biases of queries: of those that meet keys (u), and of those that meet relative positions (v).
  WeightView query_bias(EncoderBuilder& builder, const char* name) const {
    return builder.tensor({name, ""}, "", config().heads, config().head_dim, "attention");
  }

  // Queries have the bias v; what they lack of u is in the scores of relative positions.
  TensorId attention(EncoderBuilder& builder, uint32_t layer, TensorId x, const AttentionStyle& style) const {
    const uint32_t hidden = config().hidden;
    const TensorName name = {"self_attn.q_proj", ""};
    const WeightView matrix = builder.tensor(name, ".weight", hidden, hidden, "attention");
    std::optional<WeightView> own;
    if (own_.bias) own = builder.tensor(name, ".bias", hidden, 0, "attention");
    const WeightView v = query_bias(builder, "self_attn.bias_v");
    const WeightView bias =
        builder.derived_tensor("self_attn.q_proj.bias_with_v", {hidden}, [&](std::span<float> to) {
          const std::vector<float> added = decode_vector(v);
          const std::vector<float> first = own ? decode_vector(*own) : std::vector<float>(hidden);
          for (uint32_t i = 0; i < hidden; ++i) to[i] = first[i] + added[i];
        });
    AttentionInputs inputs;
    inputs.query = builder.project(x, builder.node_name(name), matrix, &bias, "attention");
    inputs.key = builder.project(x, {"self_attn.k_proj", ""}, hidden, own_.bias, "attention");
    inputs.value = builder.project(x, {"self_attn.v_proj", ""}, hidden, own_.bias, "attention");
    return builder.project(builder.attend(layer, inputs, style), {"self_attn.o_proj", ""}, hidden, own_.bias,
                           "attention");
  }

  // The sines and cosines of the distances from -span() on, as a query's position less a key's.
  WeightView positions(EncoderBuilder& builder) const {
    const uint64_t hidden = config().hidden, count = 2 * uint64_t{span()};
    return builder.derived_tensor("positions", {count, hidden}, [&](std::span<float> to) {
      for (uint64_t row = 0; row < count; ++row) {
        const double distance = static_cast<double>(row) - span();
        for (uint64_t i = 0; i < hidden; ++i) {
          const double frequency =
              std::pow(10000.0, -static_cast<double>(i / 2 * 2) / static_cast<double>(hidden));
          const double angle = distance * frequency;
          to[row * hidden + i] = static_cast<float>(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
        }
      }
    });
  }

  // Of queries with the keys of relative positions, and of keys with u - v.
  TensorId scores(EncoderBuilder& builder, uint32_t layer, const AttentionInputs& inputs) const {
    const uint32_t hidden = config().hidden;
    const WeightView u = query_bias(builder, "self_attn.bias_u"), v = query_bias(builder, "self_attn.bias_v");
    PositionWeights weights;
    weights.key = builder.tensor({"self_attn.relative_k_proj", ""}, ".weight", hidden, hidden, "attention");
    weights.query_bias = builder.derived_tensor("self_attn.u_less_v", {hidden}, [&](std::span<float> to) {
      const std::vector<float> a = decode_vector(u), b = decode_vector(v);
      for (uint32_t i = 0; i < hidden; ++i) to[i] = a[i] - b[i];
    });
    builder.prefix("encoder.", "");
    weights.positions = positions(builder); // of all layers
    builder.layer(layer, layer_prefix);
    return position_scores(builder.graph(), builder.prefix() + "position_scores", inputs.query, inputs.key,
                           kept_scores_.of(layer, std::move(weights), config().heads, score_scale()));
  }

  // The first half of a projection, gated by the second one, goes through a convolution of each channel by
  // itself, with a batch norm, and another projection.
  TensorId convolution(EncoderBuilder& builder, TensorId x) const {
    const uint32_t hidden = config().hidden;
    const TensorName first = {"conv.pointwise_conv1", ""}, last = {"conv.pointwise_conv2", ""};
    const WeightView both =
        builder.flat_tensor(first, ".weight", {2 * uint64_t{hidden}, hidden, 1}, "feed-forward");
    std::optional<WeightView> bias;
    if (own_.convolution_bias) bias = builder.tensor(first, ".bias", 2 * uint64_t{hidden}, 0, "feed-forward");
    const auto part = [&](const char* suffix, uint32_t begin) {
      const WeightView matrix = slice_rows(both, begin, hidden);
      std::optional<WeightView> own;
      if (bias) own = bias->slice(begin, hidden);
      return builder.project(x, builder.node_name(first) + suffix, matrix, own ? &*own : nullptr,
                             "feed-forward");
    };
    const TensorId values = part(".values", 0), gates = part(".gates", hidden);
    x = gate_rows(builder.graph(), builder.prefix() + "conv.gated", values, gates);
    x = convolve_channels(builder, x);
    const WeightView matrix = builder.flat_tensor(last, ".weight", {hidden, hidden, 1}, "feed-forward");
    std::optional<WeightView> last_bias;
    if (own_.convolution_bias) last_bias = builder.tensor(last, ".bias", hidden, 0, "feed-forward");
    return builder.project(x, builder.node_name(last), matrix, last_bias ? &*last_bias : nullptr,
                           "feed-forward");
  }

  static WeightView slice_rows(WeightView view, uint64_t begin, uint64_t count) {
    view.first += begin;
    view.rows = view.run = view.step = count;
    return view;
  }

  // As groups of four channels, between which the weights are zeros.
  TensorId convolve_channels(EncoderBuilder& builder, TensorId x) const {
    const uint64_t hidden = config().hidden, taps = own_.convolution_width;
    const TensorName name = {"conv.depthwise_conv", ""};
    const WeightView kernel = builder.flat_tensor(name, ".weight", {hidden, 1, taps}, "feed-forward");
    std::optional<WeightView> bias;
    if (own_.convolution_bias) bias = builder.tensor(name, ".bias", hidden, 0, "feed-forward");
    const BatchNorm norm(builder, {"conv.norm", ""}, config().hidden, own_.batch_norm_eps);
    const WeightView view =
        builder.derived_tensor("conv.depthwise_conv.taps", {taps * 4, hidden}, [&](std::span<float> to) {
          const std::vector<float> from = decode_vector(kernel), factor = norm.factors();
          std::ranges::fill(to, 0.0f);
          for (uint64_t c = 0; c < hidden; ++c) {
            for (uint64_t tap = 0; tap < taps; ++tap)
              to[(tap * 4 + c % 4) * hidden + c] = from[c * taps + tap] * factor[c];
          }
        });
    const WeightView moved = builder.derived_tensor("conv.norm.shift", {hidden}, [&](std::span<float> to) {
      norm.shift(bias ? decode_vector(*bias) : std::vector<float>(hidden), to);
    });
    Convolve operation;
    operation.channels = operation.out_channels = config().hidden;
    operation.kernel_height = own_.convolution_width;
    operation.padding = own_.convolution_width / 2;
    operation.groups = config().hidden / 4;
    operation.by_tokens = true;
    operation.activation = config().activation;
    return convolve(builder.graph(), builder.node_name(name), x, operation,
                    builder.weight(view, "feed-forward"), builder.weight(moved, "feed-forward"));
  }

  const ParakeetConfig own_;
  KeptPositionScores kept_scores_;
};

// What preprocessor_config.json says, or processor_config.json of its feature extractor.
Result<nlohmann::json> read_preprocessor(const ModelFolder& folder, std::string& name) {
  name = "preprocessor_config.json";
  PUMICE_TRY(std::optional<nlohmann::json> found, folder.object("preprocessor_config.json"));
  if (found) return *std::move(found);
  PUMICE_TRY(found, folder.object("processor_config.json"));
  if (!found || !found->contains("feature_extractor")) return nlohmann::json::object();
  name = "processor_config.json";
  return found->at("feature_extractor");
}

Status read_spectrum(const ModelFile& file, const Settings& settings, Spectrum& spectrum) {
  LogMelShape& mel = spectrum.mel;
  PUMICE_TRY(mel.mels, settings.u32_or({"num_mel_bins", ""}, 4, 1024, 80));
  std::string name;
  PUMICE_TRY(const nlohmann::json stored, read_preprocessor(file.folder(), name));
  const Fields fields(stored, file.folder().path(name));
  PUMICE_TRY(const uint32_t mels, fields.u32_or("feature_size", mel.mels));
  PUMICE_TRY(mel.sample_rate, fields.u32_or("sampling_rate", 16000));
  PUMICE_TRY(mel.n_fft, fields.u32_or("n_fft", 64, 4096, 512));
  PUMICE_TRY(mel.hop, fields.u32_or("hop_length", 1, 1 << 16, 160));
  PUMICE_TRY(spectrum.window, fields.u32_or("win_length", 2, mel.n_fft, 400));
  PUMICE_TRY(spectrum.preemphasis, fields.f32_or("preemphasis", 0.0f, 1.0f, spectrum.preemphasis));
  if (mels != mel.mels || mel.mels % 4 != 0)
    return fields.error("feature_size",
                        fmt::format("expected the model's num_mel_bins, {}, a multiple of four; "
                                    "found {}",
                                    mel.mels, mels));
  if (mel.sample_rate != 16000)
    return fields.error("sampling_rate", fmt::format("expected 16000; found {}", mel.sample_rate));
  if (spectrum.window % 2 != 0 || mel.n_fft % 2 != 0)
    return fields.error("win_length", fmt::format("expected an even number; found {}", spectrum.window));
  return {};
}

Status read_subsampling(const Settings& settings, ParakeetConfig& config) {
  const SettingName factor_name = {"subsampling_factor", ""},
                    width_name = {"subsampling_conv_kernel_size", ""};
  PUMICE_TRY(const uint32_t factor, settings.u32_or(factor_name, 2, 64, 8));
  if (!std::has_single_bit(factor))
    return settings.error(factor_name, fmt::format("expected a power of two; found {}", factor));
  config.subsampling_layers = static_cast<uint32_t>(std::countr_zero(factor));
  PUMICE_TRY(config.subsampling_channels, settings.u32_or({"subsampling_conv_channels", ""}, 4, 4096, 256));
  PUMICE_TRY(config.subsampling_width, settings.u32_or(width_name, 1, 63, 3));
  PUMICE_TRY(config.subsampling_stride, settings.u32_or({"subsampling_conv_stride", ""}, 1, 16, 2));
  if (config.subsampling_width % 2 == 0)
    return settings.error(width_name,
                          fmt::format("expected an odd number; found {}", config.subsampling_width));
  EncoderConfig& encoder = config.encoder;
  const uint32_t hop = config.spectrum.mel.hop;
  encoder.kind = InputKind::samples;
  encoder.input_shape = {config.most_samples};
  encoder.convolutions = {{hop, hop}};
  for (uint32_t i = 0; i < config.subsampling_layers; ++i)
    encoder.convolutions.push_back({1, config.subsampling_stride});
  encoder.context = encoder.shape().frames(config.most_samples);
  return {};
}

Status read_transducer(const Settings& settings, bool with_durations, ParakeetConfig& config) {
  PUMICE_TRY(config.transducer_columns, settings.u32_or({"decoder_hidden_size", ""}, 1, 1 << 16, 640));
  PUMICE_TRY(config.transducer_layers, settings.u32_or({"num_decoder_layers", ""}, 1, 64, 2));
  PUMICE_TRY(config.vocabulary, settings.u32_or({"vocab_size", ""}, 2, limits::tokens, 8193));
  if (!with_durations) return {};
  PUMICE_TRY(const std::vector<uint32_t> durations,
             settings.fields().u32_array_or_empty("durations", 0, 1 << 16));
  config.durations = durations.empty() ? 5 : static_cast<uint32_t>(durations.size());
  return {};
}

OpenedDefinition open_parakeet(const ModelFile& file) {
  const Settings whole(file);
  PUMICE_TRY(Fields fields, file.fields().object("encoder_config"));
  const Settings settings(file, std::move(fields));
  StackConfigNames names;
  names.vocabulary = names.context = {};
  names.set_heads_share_columns();
  names.norm_eps = {};
  names.default_norm_eps = 1e-5f;
  ParakeetConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config.encoder), read_stack_config(settings, names));
  PUMICE_CHECK(read_spectrum(file, settings, config.spectrum));
  PUMICE_CHECK(read_subsampling(settings, config));
  const SettingName width = {"conv_kernel_size", ""};
  PUMICE_TRY(config.convolution_width, settings.u32_or(width, 1, 255, 9));
  if (config.convolution_width % 2 == 0)
    return settings.error(width, fmt::format("expected an odd number; found {}", config.convolution_width));
  PUMICE_TRY(config.convolution_bias, settings.boolean_or({"convolution_bias", ""}, true));
  PUMICE_TRY(config.bias, settings.boolean_or({"attention_bias", ""}, true));
  PUMICE_TRY(config.scales_input, settings.boolean_or({"scale_input", ""}, true));
  const std::string type = file.architecture();
  if (type == "parakeet_ctc") {
    PUMICE_TRY(config.vocabulary, whole.u32_or({"vocab_size", ""}, 2, limits::tokens, 1025));
  } else {
    PUMICE_CHECK(read_transducer(whole, type == "parakeet_tdt", config));
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<Parakeet>(std::move(config), whole.gguf()));
}

} // namespace

Architectures parakeet_models() {
  return {{"parakeet", {"parakeet_ctc", "parakeet_rnnt", "parakeet_tdt"}, {}, open_parakeet}};
}

} // namespace pumice
