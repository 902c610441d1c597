#include <cmath>

#include <fmt/format.h>

#include "models/encoder/model.h"
#include "models/encoder/sound_convolutions.h"
#include "models/registry.h"

namespace pumice {

namespace {

// Most samples of an input: 20 seconds. What the first convolution makes of them in the published models just
// fits what kernels can reach of a buffer on every device.
constexpr uint32_t most_samples = 320000;

struct Wav2Vec2Config {
  EncoderConfig encoder;
  std::vector<uint32_t> channels; // of each convolution over samples
  bool convolution_bias = false;
  bool norm_each = false;  // a layer norm after each convolution; otherwise a norm over time after the first
  bool norm_first = false; // in the layers
  uint32_t position_width = 128; // frames of the convolution that gives positions
  uint32_t position_groups = 16;
  Activation feature_activation = Activation::gelu;
  std::string prefix;       // of tensor names: "wav2vec2.", or empty if the file has no head
  uint32_t vocabulary = 0;  // of the head; 0: there is none
  bool parametrized = true; // names of that convolution's weights, as torch 2 writes them
};

// wav2vec 2.0 (Baevski et al. 2020): convolutions over the samples of a sound, a convolution instead of
// positions, and an encoder, whose rows a head turns into letters (Graves et al., CTC, 2006).
class Wav2Vec2 : public EncoderModel {
public:
  Wav2Vec2(Wav2Vec2Config config, bool gguf) : EncoderModel(config.encoder, gguf), own_(std::move(config)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = project_features(builder, convolve_samples(builder));
    x = add_positions(builder, x);
    const std::string encoder = own_.prefix + "encoder.";
    const auto norm = [&](TensorId y) {
      builder.prefix(encoder, "");
      return builder.layer_norm(y, {"layer_norm", ""});
    };
    if (!own_.norm_first) x = norm(x);
    x = builder.run_layers(x, layer_names());
    if (own_.norm_first) x = norm(x);
    builder.finish(x);
    if (own_.vocabulary == 0) return;
    builder.prefix("", "");
    builder.readable().add("logits", builder.project(x, {"lm_head", ""}, own_.vocabulary, true, "head"));
  }

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = own_.prefix + "encoder.layers.{}.";
    names.norm_first = own_.norm_first;
    names.attention.query = {"attention.q_proj", ""};
    names.attention.key = {"attention.k_proj", ""};
    names.attention.value = {"attention.v_proj", ""};
    names.attention.output = {"attention.out_proj", ""};
    names.attention_norm = {"layer_norm", ""};
    names.up = {"feed_forward.intermediate_dense", ""};
    names.down = {"feed_forward.output_dense", ""};
    names.feed_forward_norm = {"final_layer_norm", ""};
    return names;
  }

  TensorId convolve_samples(EncoderBuilder& builder) const {
    SoundConvolutions sound(builder);
    const Activation activation = own_.feature_activation;
    for (uint32_t i = 0; i < own_.channels.size(); ++i) {
      builder.prefix(fmt::format("{}feature_extractor.conv_layers.{}.", own_.prefix, i), "");
      const bool over_time = !own_.norm_each && i == 0;
      const bool normed = own_.norm_each || over_time;
      sound.convolve({"conv", ""}, own_.channels[i], own_.convolution_bias,
                     normed ? Activation::none : activation);
      if (over_time) sound.norm_frames({"layer_norm", ""}, false, activation);
      if (own_.norm_each) sound.norm_each({"layer_norm", ""}, activation);
    }
    return sound.rows();
  }

  TensorId project_features(EncoderBuilder& builder, TensorId x) const {
    builder.prefix(own_.prefix + "feature_projection.", "");
    x = builder.layer_norm(x, {"layer_norm", ""});
    return builder.project(x, {"projection", ""}, config().hidden, true, "embedding");
  }

  // x + activation(a convolution of it). The convolution's weights are stored as directions and lengths, a
  // length for each tap (Salimans and Kingma, Weight Normalization, 2016).
  TensorId add_positions(EncoderBuilder& builder, TensorId x) const {
    builder.prefix(own_.prefix + "encoder.pos_conv_embed.", "");
    const uint64_t hidden = config().hidden, taps = own_.position_width;
    const uint64_t channels = hidden / own_.position_groups;
    const TensorName length_name = {
        own_.parametrized ? "conv.parametrizations.weight.original0" : "conv.weight_g", ""};
    const TensorName direction_name = {
        own_.parametrized ? "conv.parametrizations.weight.original1" : "conv.weight_v", ""};
    const WeightView lengths = builder.shaped_tensor(length_name, "", {1, 1, taps}, "embedding");
    const WeightView directions =
        builder.flat_tensor(direction_name, "", {hidden, channels, taps}, "embedding");
    const WeightView matrix =
        builder.derived_tensor("conv.taps", {taps * channels, hidden}, [&](std::span<float> to) {
          const std::vector<float> length = decode_vector(lengths);
          transpose_taps(decode_vector(directions), hidden, channels, taps, to);
          for (uint64_t tap = 0; tap < taps; ++tap) {
            const std::span<float> own = to.subspan(tap * channels * hidden, channels * hidden);
            double squares = 0;
            for (float value : own) squares += double{value} * value;
            for (float& value : own) value = static_cast<float>(value / std::sqrt(squares) * length[tap]);
          }
        });
    Convolve operation;
    operation.channels = operation.out_channels = config().hidden;
    operation.kernel_height = own_.position_width;
    operation.padding = own_.position_width / 2;
    operation.groups = own_.position_groups;
    operation.by_tokens = true;
    operation.activation = own_.feature_activation;
    const WeightView bias = builder.tensor({"conv", ""}, ".bias", hidden, 0, "embedding");
    const TensorId positions =
        convolve(builder.graph(), builder.node_name({"conv", ""}), x, operation,
                 builder.weight(matrix, "embedding"), builder.weight(bias, "embedding"));
    return builder.add(x, positions, "with_positions");
  }

  Wav2Vec2Config own_;
};

Result<std::vector<uint32_t>> numbers(const Settings& settings, const char* name, uint32_t most,
                                      std::vector<uint32_t> fallback) {
  PUMICE_TRY(std::vector<uint32_t> found, settings.fields().u32_array_or_empty(name, 1, most));
  return found.empty() ? fallback : found;
}

Status read_convolutions(const Settings& settings, Wav2Vec2Config& config) {
  PUMICE_TRY(config.channels, numbers(settings, "conv_dim", 4096, std::vector<uint32_t>(7, 512)));
  PUMICE_TRY(const auto widths, numbers(settings, "conv_kernel", 1024, {10, 3, 3, 3, 3, 2, 2}));
  PUMICE_TRY(const auto strides, numbers(settings, "conv_stride", 1024, {5, 2, 2, 2, 2, 2, 2}));
  if (widths.size() != config.channels.size() || strides.size() != config.channels.size()) {
    return settings.error({"conv_kernel", ""},
                          fmt::format("expected as many as conv_dim and conv_stride; found {}, {} and {}",
                                      widths.size(), config.channels.size(), strides.size()));
  }
  EncoderConfig& encoder = config.encoder;
  for (size_t i = 0; i < widths.size(); ++i) encoder.convolutions.push_back({widths[i], strides[i]});
  encoder.kind = InputKind::samples;
  encoder.input_shape = {most_samples};
  encoder.context = encoder.shape().frames(most_samples);
  if (encoder.context > 0) return {};
  return settings.error(
      {"conv_stride", ""},
      fmt::format("expected convolutions that leave something of {} samples", most_samples));
}

OpenedDefinition open_wav2vec2(const ModelFile& file) {
  const Settings settings(file);
  Wav2Vec2Config config;
  StackConfigNames names;
  names.vocabulary = {};
  names.context = {};
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", ""};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu;
  PUMICE_TRY(static_cast<StackConfig&>(config.encoder), read_stack_config(settings, names));
  PUMICE_CHECK(read_convolutions(settings, config));
  PUMICE_CHECK(settings.expect("add_adapter", false, false));
  PUMICE_TRY(config.convolution_bias, settings.boolean_or({"conv_bias", ""}, false));
  PUMICE_TRY(config.norm_first, settings.boolean_or({"do_stable_layer_norm", ""}, false));
  PUMICE_TRY(config.feature_activation,
             settings.activation_or({"feat_extract_activation", ""}, Activation::gelu));
  PUMICE_TRY(const std::string norm, settings.fields().string_or("feat_extract_norm", "group"));
  if (norm != "group" && norm != "layer") {
    return settings.error({"feat_extract_norm", ""},
                          fmt::format("expected group or layer; found '{}'", norm));
  }
  config.norm_each = norm == "layer";
  PUMICE_TRY(config.position_width, settings.u32_or({"num_conv_pos_embeddings", ""}, 1, 4096, 128));
  PUMICE_TRY(config.position_groups,
             settings.u32_or({"num_conv_pos_embedding_groups", ""}, 1, config.encoder.hidden, 16));
  config.prefix = file.find("wav2vec2.feature_projection.projection.weight") ? "wav2vec2." : "";
  config.parametrized = !file.find(config.prefix + "encoder.pos_conv_embed.conv.weight_v");
  if (file.find("lm_head.weight")) {
    PUMICE_TRY(config.vocabulary, settings.u32_or({"vocab_size", ""}, 1, limits::tokens, 32));
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<Wav2Vec2>(std::move(config), settings.gguf()));
}

} // namespace

Architectures wav2vec2_models() {
  return {{"wav2vec2", {"wav2vec2"}, {}, open_wav2vec2}};
}

} // namespace pumice
