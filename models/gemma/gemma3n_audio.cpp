#include "models/gemma/gemma3n_audio.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "kernel/attention/position_scores.h"
#include "kernel/convolution/pictures.h"
#include "kernel/elementwise/elementwise.h"
#include "kernel/norm/norm.h"
#include "models/encoder/model.h"
#include "models/encoder/sound_convolutions.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr float own_eps = 1e-6f; // of norms that no setting concerns
constexpr const char* layer_prefix = "conformer.{}.";

// How the features are made of samples, as the class of the feature extractor has it.
struct Spectrum {
  uint32_t window = 512; // samples of a frame
  uint32_t hop = 160;
  uint32_t transform = 1024; // samples of a Fourier transform, most of which are zeros
  uint32_t bands = 128;
  float preemphasis = 0.97f;
  float lowest = 125, highest = 7600; // hertz
  float least = 1e-5f;                // of what a logarithm is taken

  uint32_t bins() const { return transform / 2 + 1; }
  uint32_t columns() const { return (2 * bins() + 3) / 4 * 4; } // real parts, then imaginary ones
  uint32_t magnitudes() const { return (bins() + 3) / 4 * 4; }
  // One sample more is asked for than the frame has.
  SoundFrames frames() const { return {window + 1, hop}; }
};

struct Gemma3nAudio {
  EncoderConfig encoder;
  Spectrum spectrum;
  std::array<uint32_t, 2> channels = {128, 32}; // of the convolutions before the first layer
  float group_eps = 1e-3f;                      // of their norms
  uint32_t left = 13;                           // positions that attention sees, with the row's own
  float soft_cap = 50;
  uint32_t taps = 5; // of a layer's convolution
  float residual = 0.5f;
  uint32_t columns = 0;    // of the decoder's embeddings
  uint32_t vocabulary = 0; // of the embedder's own tokens
  std::string prefix, embedder;
};

// The encoder of Gemma 3n's sounds: Google's Universal Speech Model (Zhang et al. 2023), a conformer whose
// layers see nothing of what follows. Convolutions make a quarter of the frames of a spectrum, which the
// graph computes of the samples.
class Gemma3nSounds : public EncoderModel {
public:
  explicit Gemma3nSounds(Gemma3nAudio own) : EncoderModel(own.encoder, false), own_(std::move(own)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = subsample(builder, make_features(builder));
    AttentionStyle style;
    style.score_scale = 1;
    style.soft_cap = own_.soft_cap;
    style.relative_bias = {2 * span(), span(), false, false, true};
    style.relative_scores = [&](uint32_t layer, const AttentionInputs& inputs) {
      return scores(builder, layer, inputs);
    };
    for (uint32_t index = 0; index < config().layers; ++index) {
      builder.hidden_state(x);
      builder.layer(index, own_.prefix + layer_prefix);
      x = feed_forward(builder, x, "ffw_layer_start");
      x = attention(builder, index, x, style);
      x = convolution(builder, x);
      x = feed_forward(builder, x, "ffw_layer_end");
      x = builder.ModelBuilder::rms_norm(x, {"norm", ""}, own_eps);
    }
    builder.finish(x);
    builder.prefix(own_.embedder, "");
    builder.readable().add(PictureTokens::features, embed_rows(builder, x));
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"bands of the spectrum", fmt::format("{}", own_.spectrum.bands)},
            {"attention", fmt::format("to {} positions, capped at {:g}", own_.left, own_.soft_cap)},
            {"convolution", fmt::format("{} frames", own_.taps)}};
  }

private:
  uint32_t span() const { return std::max(own_.left, 2u); } // distances each way, with that to itself

  // A row, then what fills up a sound's rows: the last token of the embedder's own.
  TensorId embed_rows(EncoderBuilder& builder, TensorId x) const {
    const uint64_t columns = own_.columns, hidden = config().hidden;
    x = builder.rms_norm(x, {"soft_embedding_norm", ""});
    const WeightView matrix =
        builder.tensor({"embedding_projection", ""}, ".weight", columns, hidden, "head");
    const WeightView table =
        builder.tensor({"embedding", ""}, ".weight", own_.vocabulary, hidden, "embedding");
    const WeightView norm = builder.tensor({"hard_embedding_norm", ""}, ".weight", hidden, 0, "norms");
    const WeightView both =
        builder.derived_tensor("projections", {2 * columns, hidden}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          std::ranges::copy(decode_vector(matrix), to.begin());
        });
    const WeightView bias = builder.derived_tensor("filling", {2 * columns}, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      project_token(decode_vector(table), own_.vocabulary - 1, decode_vector(norm), decode_vector(matrix),
                    hidden, config().norm_eps, to.subspan(columns));
    });
    x = builder.project(x, "embedding_projection", both, &bias, "head");
    const WeightView ones =
        builder.derived_tensor("ones", {columns}, [](std::span<float> to) { std::ranges::fill(to, 1.0f); });
    return grouped_rms_norm(builder.graph(), "embedded", x, builder.weight(ones, "norms"), 2,
                            config().norm_eps);
  }

  // ---- from samples to features ----

  TensorId convolve_with(EncoderBuilder& builder, const char* name, TensorId x, const Convolve& operation,
                         const std::function<void(std::span<float>)>& fill) const {
    const uint64_t taps = uint64_t{operation.kernel_height} * operation.channels;
    const WeightView view =
        builder.derived_tensor(std::string(name) + ".taps", {taps, operation.out_channels}, fill);
    return convolve(builder.graph(), name, x, operation, builder.weight(view, "embedding"), {});
  }

  // A frame's Fourier transform under a Hann window, after each sample but its first has lost a share of the
  // one before it. The window makes nothing of the first.
  TensorId transform(EncoderBuilder& builder, TensorId x) const {
    const Spectrum& spectrum = own_.spectrum;
    const uint32_t bins = spectrum.bins(), width = spectrum.window;
    Convolve operation;
    operation.channels = 1;
    operation.height = config().input_shape[0];
    operation.out_channels = spectrum.columns();
    operation.kernel_height = width;
    operation.stride = spectrum.hop;
    operation.sound = spectrum.frames();
    return convolve_with(builder, "transformed", x, operation, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      const auto windowed = [&](uint32_t n, double angle_of(double), uint32_t k) {
        if (n >= width) return 0.0;
        const double turn = 2 * std::numbers::pi;
        const uint64_t at = uint64_t{n} * k % spectrum.transform;
        return (0.5 - 0.5 * std::cos(turn * n / width)) *
               angle_of(turn * static_cast<double>(at) / spectrum.transform);
      };
      for (uint32_t n = 0; n < width; ++n) {
        float* row = &to[size_t{n} * operation.out_channels];
        for (uint32_t k = 0; k < bins; ++k) {
          const double share = spectrum.preemphasis;
          row[k] = static_cast<float>(windowed(n, std::cos, k) - share * windowed(n + 1, std::cos, k));
          row[bins + k] = static_cast<float>(windowed(n, std::sin, k) - share * windowed(n + 1, std::sin, k));
        }
      }
    });
  }

  uint32_t frame_room() const {
    return (config().input_shape[0] - own_.spectrum.window) / own_.spectrum.hop + 1;
  }

  // Triangles on the mel scale of HTK, of height 1.
  double band_weight(uint32_t band, uint32_t bin) const {
    const Spectrum& spectrum = own_.spectrum;
    const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double low = to_mel(spectrum.lowest), high = to_mel(spectrum.highest);
    const auto corner = [&](uint32_t i) {
      return 700 * (std::pow(10.0, (low + (high - low) * i / (spectrum.bands + 1)) / 2595) - 1);
    };
    const double hertz = 16000.0 * bin / spectrum.transform;
    const double left = corner(band), middle = corner(band + 1), right = corner(band + 2);
    return std::max(0.0, std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle)));
  }

  // The logarithms of the magnitudes in bands.
  TensorId make_features(EncoderBuilder& builder) const {
    const Spectrum& spectrum = own_.spectrum;
    builder.prefix("spectrum.", "");
    const TensorId x = builder.graph().input("input_values", RowKind::outputs, config().input_shape[0]);
    const TensorId parts = transform(builder, x);
    const TensorId squares = gate(builder.graph(), "squares", parts, parts, Activation::none);
    Convolve each;
    each.channels = spectrum.columns();
    each.height = frame_room();
    each.out_channels = spectrum.magnitudes();
    each.rule = Convolve::Rule::roots;
    each.sound = spectrum.frames();
    const TensorId magnitudes = convolve_with(builder, "magnitudes", squares, each, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      for (uint32_t k = 0; k < spectrum.bins(); ++k) {
        for (const uint32_t part : {k, spectrum.bins() + k}) to[size_t{part} * each.out_channels + k] = 1;
      }
    });
    Convolve bands = each;
    bands.channels = spectrum.magnitudes();
    bands.out_channels = spectrum.bands;
    bands.rule = Convolve::Rule::logarithms;
    bands.least = spectrum.least;
    TensorId features = convolve_with(builder, "bands", magnitudes, bands, [&](std::span<float> to) {
      std::ranges::fill(to, 0.0f);
      for (uint32_t band = 0; band < spectrum.bands; ++band) {
        for (uint32_t k = 0; k < spectrum.bins(); ++k)
          to[size_t{k} * spectrum.bands + band] = static_cast<float>(band_weight(band, k));
      }
    });
    return features;
  }

  // ---- from features to the layers' input ----

  // Windows of three frames and three bands. In time they begin with the frame itself, so that a row of zeros
  // stands before the file's.
  TensorId subsample(EncoderBuilder& builder, TensorId x) const {
    Convolve operation;
    operation.channels = 1;
    operation.height = frame_room();
    operation.width = own_.spectrum.bands;
    operation.kernel_height = 4;
    operation.kernel_width = 3;
    operation.stride = 2;
    operation.padding = 1;
    operation.sound = own_.spectrum.frames();
    for (uint32_t layer = 0; layer < own_.channels.size(); ++layer) {
      builder.prefix(fmt::format("{}subsample_conv_projection.conv_{}.", own_.prefix, layer), "");
      const uint64_t in = operation.channels, out = own_.channels[layer];
      const WeightView kernel = builder.flat_tensor({"conv", ""}, ".weight", {out, in, 3, 3}, "embedding");
      const WeightView taps = builder.derived_tensor("conv.taps", {12 * in, out}, [&](std::span<float> to) {
        std::fill_n(to.begin(), 3 * in * out, 0.0f);
        transpose_taps(decode_vector(kernel), out, in, 9, to.subspan(3 * in * out));
      });
      operation.out_channels = own_.channels[layer];
      operation.x_sound = operation.sound;
      operation.sound.stride *= 2;
      x = convolve(builder.graph(), builder.prefix() + "conv", x, operation,
                   builder.weight(taps, "embedding"), {});
      operation.height = operation.out_height();
      operation.width = operation.out_width();
      operation.channels = operation.out_channels;
      x = norm_so_far(builder, x, operation);
    }
    const uint32_t columns = operation.width * operation.channels;
    x = frame_rows(builder.graph(), "frames", x, columns);
    builder.prefix(own_.prefix + "subsample_conv_projection.", "");
    return builder.project(x, {"input_proj_linear", ""}, config().hidden, false, "embedding");
  }

  // A group norm over all channels of all bands, of the frames up to each one.
  TensorId norm_so_far(EncoderBuilder& builder, TensorId x, const Convolve& made) const {
    const WeightView own = builder.tensor({"norm", ""}, ".weight", made.channels, 0, "norms");
    NormFrames norm;
    norm.channels = made.width * made.channels;
    norm.whole = norm.so_far = true;
    norm.eps = own_.group_eps;
    norm.activation = Activation::relu;
    norm.sound = made.sound;
    const WeightView weight =
        builder.derived_tensor("norm.of_bands", {norm.channels}, [&](std::span<float> to) {
          const std::vector<float> from = decode_vector(own);
          for (size_t i = 0; i < to.size(); ++i) to[i] = from[i % made.channels];
        });
    const WeightView zeros = builder.derived_tensor("norm.zeros", {norm.channels},
                                                    [](std::span<float> to) { std::ranges::fill(to, 0.0f); });
    return norm_frames(builder.graph(), builder.prefix() + "norm", x, norm, builder.weight(weight, "norms"),
                       builder.weight(zeros, "norms"));
  }

  // ---- the layers ----

  TensorId feed_forward(EncoderBuilder& builder, TensorId x, const std::string& name) const {
    const auto named = [&](const char* part) { return name + part; };
    const std::string before = named(".pre_layer_norm"), up = named(".ffw_layer_1"),
                      down = named(".ffw_layer_2"), after = named(".post_layer_norm");
    TensorId y = builder.ModelBuilder::rms_norm(x, {before, ""}, own_eps);
    y = builder.project(y, {up, ""}, config().feed_forward, false, "feed-forward");
    y = activate(builder.graph(), builder.prefix() + name + ".activated", y, Activation::silu);
    y = builder.project(y, {down, ""}, config().hidden, false, "feed-forward");
    y = builder.ModelBuilder::rms_norm(y, {after, ""}, own_eps);
    y = scale(builder.graph(), builder.prefix() + name + ".scaled", y, own_.residual);
    return builder.add(y, x, name + ".residual");
  }

  TensorId attention(EncoderBuilder& builder, uint32_t layer, TensorId x, const AttentionStyle& style) const {
    const uint32_t hidden = config().hidden, head_dim = config().head_dim;
    const TensorId normed = builder.ModelBuilder::rms_norm(x, {"attention.pre_attn_norm", ""}, own_eps);
    const auto projected = [&](const TensorName& name) {
      return builder.project(normed, name, hidden, false, "attention");
    };
    const WeightView own = builder.tensor({"attention.attn.per_dim_scale", ""}, "", head_dim, 0, "attention");
    const WeightView factors =
        builder.derived_tensor("attention.attn.query_scale", {hidden}, [&](std::span<float> to) {
          const std::vector<float> from = decode_vector(own);
          const double all = 1 / (std::sqrt(static_cast<double>(head_dim)) * std::log(2.0));
          for (size_t i = 0; i < to.size(); ++i)
            to[i] = static_cast<float>(all * std::log1p(std::exp(double{from[i % head_dim]})));
        });
    AttentionInputs inputs;
    inputs.query =
        scale_columns(builder.graph(), builder.prefix() + "attention.scaled_query",
                      projected({"attention.attn.q_proj", ""}), builder.weight(factors, "attention"));
    inputs.key = projected({"attention.attn.k_proj", ""});
    inputs.value = projected({"attention.attn.v_proj", ""});
    const TensorId y = builder.project(builder.attend(layer, inputs, style), {"attention.post", ""}, hidden,
                                       false, "attention");
    return builder.add(builder.ModelBuilder::rms_norm(y, {"attention.post_norm", ""}, own_eps), x,
                       "attention_residual");
  }

  // The sines, then the cosines, of the distances from -span() on, as a query's position less a key's.
  WeightView positions(EncoderBuilder& builder) const {
    const uint64_t hidden = config().hidden, half = hidden / 2, count = 2 * uint64_t{span()};
    return builder.derived_tensor("positions", {count, hidden}, [&](std::span<float> to) {
      const double apart = std::log(1e4) / static_cast<double>(std::max<uint64_t>(half - 1, 1));
      for (uint64_t row = 0; row < count; ++row) {
        const double distance = static_cast<double>(row) - span();
        for (uint64_t i = 0; i < half; ++i) {
          const double angle = distance * std::exp(-apart * static_cast<double>(i));
          to[row * hidden + i] = static_cast<float>(std::sin(angle));
          to[row * hidden + half + i] = static_cast<float>(std::cos(angle));
        }
      }
    });
  }

  TensorId scores(EncoderBuilder& builder, uint32_t layer, const AttentionInputs& inputs) const {
    const uint32_t hidden = config().hidden;
    PositionWeights weights;
    weights.key = builder.tensor({"attention.attn.relative_position_embedding.pos_proj", ""}, ".weight",
                                 hidden, hidden, "attention");
    builder.prefix(own_.prefix, "");
    weights.positions = positions(builder); // of all layers
    builder.layer(layer, own_.prefix + layer_prefix);
    return position_scores(builder.graph(), builder.prefix() + "position_scores", inputs.query, inputs.key,
                           kept_scores_.of(layer, std::move(weights), config().heads, 1));
  }

  static WeightView slice_rows(WeightView view, uint64_t begin, uint64_t count) {
    view.first += begin;
    view.rows = view.run = view.step = count;
    return view;
  }

  // The first half of a projection, gated by the second one, goes through a convolution of each channel over
  // the frames up to its own, a norm, and another projection.
  TensorId convolution(EncoderBuilder& builder, TensorId x) const {
    const uint32_t hidden = config().hidden;
    const TensorId normed = builder.rms_norm(x, {"lconv1d.pre_layer_norm", ""});
    const TensorName first = {"lconv1d.linear_start", ""};
    const WeightView both = builder.tensor(first, ".weight", 2 * uint64_t{hidden}, hidden, "feed-forward");
    const auto part = [&](const char* suffix, uint32_t begin) {
      return builder.project(normed, builder.node_name(first) + suffix, slice_rows(both, begin, hidden),
                             nullptr, "feed-forward");
    };
    const TensorId values = part(".values", 0), gates = part(".gates", hidden);
    TensorId y = gate_rows(builder.graph(), builder.prefix() + "lconv1d.gated", values, gates);
    y = builder.rms_norm(convolve_channels(builder, y), {"lconv1d.conv_norm", ""});
    y = activate(builder.graph(), builder.prefix() + "lconv1d.activated", y, Activation::silu);
    y = builder.project(y, {"lconv1d.linear_end", ""}, hidden, false, "feed-forward");
    return builder.add(y, x, "convolution_residual");
  }

  // As groups of four channels, between which the weights are zeros.
  TensorId convolve_channels(EncoderBuilder& builder, TensorId x) const {
    const uint64_t hidden = config().hidden, taps = own_.taps;
    const TensorName name = {"lconv1d.depthwise_conv1d", ""};
    const WeightView kernel = builder.flat_tensor(name, ".weight", {hidden, 1, taps}, "feed-forward");
    const WeightView view =
        builder.derived_tensor("lconv1d.depthwise_conv1d.taps", {taps * 4, hidden}, [&](std::span<float> to) {
          const std::vector<float> from = decode_vector(kernel);
          std::ranges::fill(to, 0.0f);
          for (uint64_t c = 0; c < hidden; ++c) {
            for (uint64_t tap = 0; tap < taps; ++tap)
              to[(tap * 4 + c % 4) * hidden + c] = from[c * taps + tap];
          }
        });
    Convolve operation;
    operation.channels = operation.out_channels = config().hidden;
    operation.kernel_height = own_.taps;
    operation.padding = own_.taps - 1;
    operation.groups = config().hidden / 4;
    operation.by_tokens = true;
    return convolve(builder.graph(), builder.node_name(name), x, operation,
                    builder.weight(view, "feed-forward"), {});
  }

  const Gemma3nAudio own_;
  KeptPositionScores kept_scores_;
};

// What the convolutions are in all published models.
Status check_convolutions(const Settings& settings) {
  for (const auto& [name, expected] : {std::pair("sscp_conv_kernel_size", nlohmann::json({{3, 3}, {3, 3}})),
                                       {"sscp_conv_stride_size", nlohmann::json({{2, 2}, {2, 2}})}}) {
    const nlohmann::json* found = settings.fields().find(name);
    if (found && *found != expected)
      return settings.error({name, ""}, fmt::format("expected {}; found {}", expected.dump(), found->dump()));
  }
  return {};
}

Status read_spectrum(const ModelFile& file, Spectrum& spectrum) {
  constexpr const char* name = "preprocessor_config.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  const nlohmann::json nothing = nlohmann::json::object();
  const Fields fields(json ? *json : nothing, file.folder().path(name));
  PUMICE_TRY(const uint32_t bands, fields.u32_or("feature_size", spectrum.bands));
  PUMICE_TRY(const uint32_t rate, fields.u32_or("sampling_rate", 16000));
  PUMICE_TRY(const float window, fields.f32_or("frame_length_ms", 1.0f, 250.0f, 32.0f));
  PUMICE_TRY(const float hop, fields.f32_or("hop_length_ms", 1.0f, 250.0f, 10.0f));
  PUMICE_TRY(const bool longer, fields.boolean_or("fft_overdrive", true));
  PUMICE_TRY(const bool own_first, fields.boolean_or("preemphasis_htk_flavor", true));
  PUMICE_TRY(spectrum.preemphasis, fields.f32_or("preemphasis", 0.0f, 1.0f, spectrum.preemphasis));
  PUMICE_TRY(spectrum.lowest, fields.f32_or("min_frequency", 0.0f, 8000.0f, spectrum.lowest));
  PUMICE_TRY(spectrum.highest, fields.f32_or("max_frequency", spectrum.lowest, 8000.0f, spectrum.highest));
  PUMICE_TRY(spectrum.least, fields.f32_or("mel_floor", 1e-20f, 1.0f, spectrum.least));
  if (bands != spectrum.bands || bands % 4 != 0)
    return fields.error("feature_size",
                        fmt::format("expected the model's input_feat_size, {}, a multiple of four; found {}",
                                    spectrum.bands, bands));
  if (rate != 16000) return fields.error("sampling_rate", fmt::format("expected 16000; found {}", rate));
  if (!own_first) return fields.error("preemphasis_htk_flavor", "expected true; found false");
  for (const char* each : {"per_bin_mean", "per_bin_stddev"})
    if (fields.has(each)) return fields.error(each, "expected none; found some");
  spectrum.window = static_cast<uint32_t>(std::lround(window * 16));
  spectrum.hop = static_cast<uint32_t>(std::lround(hop * 16));
  spectrum.transform = std::bit_ceil(spectrum.window) * (longer ? 2 : 1);
  return {};
}

Result<Gemma3nAudio> read_audio(const ModelFile& file) {
  const nlohmann::json all =
      with_defaults(file, "audio_config",
                    {{"hidden_size", 1536}, {"conf_num_hidden_layers", 12}, {"conf_num_attention_heads", 8}});
  const Settings settings(file, Fields(all, file.path() + "/config.json", "audio_config."));
  StackConfigNames names;
  names.vocabulary = names.context = names.feed_forward = names.activation = {};
  names.layers.hugging_face = "conf_num_hidden_layers";
  names.heads.hugging_face = "conf_num_attention_heads";
  names.set_heads_share_columns();
  Gemma3nAudio own;
  EncoderConfig& encoder = own.encoder;
  PUMICE_TRY(static_cast<StackConfig&>(encoder), read_stack_config(settings, names));
  encoder.feed_forward = 4 * encoder.hidden;
  if (encoder.hidden % 4 != 0)
    return settings.error({"hidden_size", ""},
                          fmt::format("expected a multiple of four; found {}", encoder.hidden));
  PUMICE_CHECK(check_convolutions(settings));
  PUMICE_TRY(const std::vector<uint32_t> channels,
             settings.fields().u32_array_or_empty("sscp_conv_channel_size", 4, 4096));
  for (size_t i = 0; i < channels.size() && i < own.channels.size(); ++i) own.channels[i] = channels[i];
  PUMICE_TRY(own.group_eps, settings.f32_or({"sscp_conv_group_norm_eps", ""}, 0.0f, 1.0f, 1e-3f));
  PUMICE_TRY(own.left, settings.u32_or({"conf_attention_context_left", ""}, 1, 4096, 13));
  PUMICE_TRY([[maybe_unused]] const uint32_t right,
             settings.u32_or({"conf_attention_context_right", ""}, 0, 0, 0));
  PUMICE_TRY(own.soft_cap, settings.f32_or({"conf_attention_logit_cap", ""}, 1e-3f, 1e6f, 50.0f));
  PUMICE_TRY(own.taps, settings.u32_or({"conf_conv_kernel_size", ""}, 1, 255, 5));
  PUMICE_TRY(own.residual, settings.f32_or({"conf_residual_weight", ""}, 0.0f, 100.0f, 0.5f));
  PUMICE_TRY(own.spectrum.bands, settings.u32_or({"input_feat_size", ""}, 4, 1024, 128));
  PUMICE_CHECK(read_spectrum(file, own.spectrum));
  SoundWindows windows{1, true};
  PUMICE_TRY(windows.joined, settings.u32_or({"conf_reduction_factor", ""}, 1, 64, 4));
  encoder.causal = true;
  encoder.windows.assign(encoder.layers, own.left);
  encoder.kind = InputKind::samples;
  PUMICE_TRY(const uint32_t rows, Settings(file).u32_or({"audio_soft_tokens_per_image", ""}, 1, 4096, 188));
  // As many frames as fill the rows, and one more window's end.
  const Spectrum& spectrum = own.spectrum;
  const uint32_t frames = 4 * windows.joined * rows;
  encoder.input_shape = {(frames - 1) * spectrum.hop + spectrum.window};
  encoder.convolutions = {{spectrum.window + 1, spectrum.hop}, {1, 2}, {1, 2}};
  encoder.context = encoder.shape().frames(encoder.input_shape[0]);
  encoder.sound_windows = windows;
  PUMICE_TRY(own.vocabulary, settings.u32_or({"vocab_size", ""}, 1, 1 << 20, 128));
  PUMICE_TRY(own.columns, file.text_fields().u32_or("hidden_size", 1, limits::columns, 2048));
  own.prefix = prefix_of(file, "subsample_conv_projection.input_proj_linear.weight",
                         {"model.audio_tower.", "audio_tower."});
  own.embedder = prefix_of(file, "embedding_projection.weight", {"model.embed_audio.", "embed_audio."});
  return own;
}

} // namespace

void project_token(std::span<const float> table, uint64_t token, std::span<const float> norm,
                   std::span<const float> matrix, uint64_t columns, float eps, std::span<float> to) {
  const std::span<const float> row = table.subspan(token * columns, columns);
  double squares = 0;
  for (const float each : row) squares += double{each} * each;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
  for (size_t i = 0; i < to.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < row.size(); ++c) sum += factor * row[c] * norm[c] * matrix[i * row.size() + c];
    to[i] = static_cast<float>(sum);
  }
}

OpenedDefinition open_gemma3n_sounds(const ModelFile& file) {
  PUMICE_TRY(Gemma3nAudio own, read_audio(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Gemma3nSounds>(std::move(own)));
}

} // namespace pumice
