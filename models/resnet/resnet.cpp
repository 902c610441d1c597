#include <cmath>

#include <fmt/format.h>

#include "kernel/convolution/pictures.h"
#include "kernel/elementwise/elementwise.h"
#include "media/preprocess.h"
#include "models/encoder/batch_norm.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

constexpr float batch_norm_eps = 1e-5f; // torch.nn.BatchNorm2d's

struct ResnetConfig {
  EncoderConfig encoder;
  uint32_t embedding_size = 64;
  std::vector<uint32_t> hidden_sizes, depths; // of each stage
  bool bottleneck = true;
  bool downsample_in_first_stage = false;
  bool downsample_in_bottleneck = false; // by its first convolution instead of its second
  std::string prefix;                    // of tensor names: "resnet.", or empty if the file has no head
};

// A picture on the device.
struct Pixels {
  TensorId tensor = 0;
  uint32_t channels = 0, height = 0, width = 0;
  bool planes = false;
};

// ResNet (He et al., Deep Residual Learning for Image Recognition, 2015; v1.5, which strides in the middle of
// a bottleneck): stages of convolutions, each followed by a batch norm, which is folded into the weights.
class Resnet : public EncoderModel {
public:
  Resnet(ResnetConfig config, bool gguf) : EncoderModel(config.encoder, gguf), own_(std::move(config)) {}

  Status set_picture_size(uint32_t height, uint32_t width) override {
    set_input_shape({config().input_shape[0], height, width});
    return {};
  }

protected:
  void build(EncoderBuilder& builder) const override {
    const std::vector<uint32_t>& shape = config().input_shape;
    Pixels x{builder.graph().input("pixel_values", RowKind::outputs, config().shape().input_values()),
             shape[0], shape[1], shape[2], true};
    x = convolve_and_norm(builder, x, own_.prefix + "embedder.embedder.", own_.embedding_size, 7, 2, true);
    x = pool(builder, "pooled", x, 3, 2, 1, false);
    for (size_t stage = 0; stage < own_.depths.size(); ++stage) x = build_stage(builder, x, stage);
    PoolPixels mean;
    mean.channels = x.channels;
    mean.window_height = mean.height = x.height;
    mean.window_width = mean.width = x.width;
    mean.mean = true;
    const TensorId pooled = pool_pixels(builder.graph(), "mean", x.tensor, mean);
    builder.finish(pooled);
    builder.pooler_output(builder.first_rows(pooled)); // a tensor has one name
    builder.prefix("", "");
    if (!config().labels.empty()) builder.logits(pooled, {"classifier.1", ""});
  }

private:
  Pixels build_stage(EncoderBuilder& builder, Pixels x, size_t stage) const {
    for (uint32_t layer = 0; layer < own_.depths[stage]; ++layer) {
      const bool strides = layer == 0 && (stage > 0 || own_.downsample_in_first_stage);
      const std::string prefix = fmt::format("{}encoder.stages.{}.layers.{}.", own_.prefix, stage, layer);
      x = build_layer(builder, x, prefix, own_.hidden_sizes[stage], strides ? 2 : 1);
    }
    return x;
  }

  Pixels build_layer(EncoderBuilder& builder, const Pixels& x, const std::string& prefix, uint32_t channels,
                     uint32_t stride) const {
    const auto one = [&](const Pixels& y, uint32_t index, uint32_t to, uint32_t kernel, uint32_t by,
                         bool activated) {
      return convolve_and_norm(builder, y, fmt::format("{}layer.{}.", prefix, index), to, kernel, by,
                               activated);
    };
    Pixels y = x;
    if (own_.bottleneck) {
      const uint32_t reduced = channels / 4;
      const uint32_t first = own_.downsample_in_bottleneck ? stride : 1;
      y = one(y, 0, reduced, 1, first, true);
      y = one(y, 1, reduced, 3, stride / first, true);
      y = one(y, 2, channels, 1, 1, false);
    } else {
      y = one(y, 0, channels, 3, stride, true);
      y = one(y, 1, channels, 3, 1, false);
    }
    Pixels residual = x;
    if (x.channels != channels || stride != 1) {
      residual = convolve_and_norm(builder, x, prefix + "shortcut.", channels, 1, stride, false);
    }
    Graph& graph = builder.graph();
    y.tensor = add(graph, prefix + "sum", y.tensor, residual.tensor);
    y.tensor = activate(graph, prefix + "activated", y.tensor, config().activation);
    return y;
  }

  Pixels convolve_and_norm(EncoderBuilder& builder, const Pixels& x, const std::string& prefix,
                           uint32_t channels, uint32_t kernel, uint32_t stride, bool activated) const {
    builder.prefix(prefix, "");
    const WeightView matrix = builder.flat_tensor({"convolution", ""}, ".weight",
                                                  {channels, x.channels, kernel, kernel}, "convolution");
    const BatchNorm norm(builder, {"normalization", ""}, channels, batch_norm_eps);
    const uint64_t taps = uint64_t{kernel} * kernel, inputs = x.channels;
    const WeightView folded =
        builder.derived_tensor("folded.weight", {taps * inputs, channels}, [&](std::span<float> to) {
          const std::vector<float> from = decode_vector(matrix), factor = norm.factors();
          for (uint64_t o = 0; o < channels; ++o) {
            for (uint64_t c = 0; c < inputs; ++c) {
              for (uint64_t tap = 0; tap < taps; ++tap)
                to[(tap * inputs + c) * channels + o] = from[(o * inputs + c) * taps + tap] * factor[o];
            }
          }
        });
    const WeightView shift = builder.derived_tensor("folded.bias", {channels}, [&](std::span<float> to) {
      norm.shift(std::vector<float>(channels), to);
    });
    Convolve operation;
    operation.channels = x.channels;
    operation.height = x.height;
    operation.width = x.width;
    operation.out_channels = channels;
    operation.kernel_height = operation.kernel_width = kernel;
    operation.stride = stride;
    operation.padding = kernel / 2;
    operation.planes = x.planes;
    if (activated) operation.activation = config().activation;
    Pixels y{0, channels, operation.out_height(), operation.out_width()};
    y.tensor = convolve(builder.graph(), prefix + "convolution", x.tensor, operation,
                        builder.weight(folded, "convolution"), builder.weight(shift, "convolution"));
    return y;
  }

  static Pixels pool(EncoderBuilder& builder, const char* name, const Pixels& x, uint32_t window,
                     uint32_t stride, uint32_t padding, bool mean) {
    PoolPixels operation;
    operation.channels = x.channels;
    operation.height = x.height;
    operation.width = x.width;
    operation.window_height = operation.window_width = window;
    operation.stride = stride;
    operation.padding = padding;
    operation.mean = mean;
    return {pool_pixels(builder.graph(), name, x.tensor, operation), x.channels, operation.out_height(),
            operation.out_width()};
  }

  ResnetConfig own_;
};

Result<std::vector<uint32_t>> stage_sizes(const Settings& settings, const char* name, uint32_t most,
                                          std::vector<uint32_t> fallback) {
  PUMICE_TRY(std::vector<uint32_t> sizes, settings.fields().u32_array_or_empty(name, 1, most));
  return sizes.empty() ? fallback : sizes;
}

Result<ResnetConfig> read_resnet_config(const Settings& settings) {
  ResnetConfig config;
  PUMICE_TRY(config.embedding_size, settings.u32_or({"embedding_size", ""}, 4, limits::columns, 64));
  PUMICE_TRY(config.hidden_sizes,
             stage_sizes(settings, "hidden_sizes", limits::columns, {256, 512, 1024, 2048}));
  PUMICE_TRY(config.depths, stage_sizes(settings, "depths", limits::layers, {3, 4, 6, 3}));
  if (config.depths.size() != config.hidden_sizes.size()) {
    return settings.error({"depths", ""},
                          fmt::format("expected one for each of the {} hidden_sizes; found {}",
                                      config.hidden_sizes.size(), config.depths.size()));
  }
  PUMICE_TRY(const std::string type, settings.fields().string_or("layer_type", "bottleneck"));
  if (type != "bottleneck" && type != "basic") {
    return settings.error({"layer_type", ""}, fmt::format("expected bottleneck or basic; found '{}'", type));
  }
  config.bottleneck = type == "bottleneck";
  PUMICE_TRY(config.downsample_in_first_stage, settings.boolean_or({"downsample_in_first_stage", ""}, false));
  PUMICE_TRY(config.downsample_in_bottleneck, settings.boolean_or({"downsample_in_bottleneck", ""}, false));
  EncoderConfig& encoder = config.encoder;
  PUMICE_TRY(encoder.activation, settings.activation_or({"hidden_act", ""}, Activation::relu));
  PUMICE_TRY(const uint32_t channels, settings.u32_or({"num_channels", ""}, 1, 16, 3));
  encoder.kind = InputKind::pixels;
  encoder.context = 1;
  encoder.hidden = config.hidden_sizes.back();
  for (uint32_t depth : config.depths) encoder.layers += depth;
  // Any size will do: this is the usual one.
  PUMICE_TRY(const std::optional<PictureSize> size, read_picture_size(settings.file().folder()));
  encoder.input_shape = {channels, size ? size->height : 224, size ? size->width : 224};
  return config;
}

OpenedDefinition open_resnet(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(ResnetConfig config, read_resnet_config(settings));
  config.prefix = file.find("resnet.embedder.embedder.convolution.weight") ? "resnet." : "";
  if (file.find("classifier.1.weight")) {
    PUMICE_TRY(config.encoder.labels, read_labels(settings));
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<Resnet>(std::move(config), settings.gguf()));
}

} // namespace

Architectures resnet_models() {
  return {{"resnet", {"resnet"}, {}, open_resnet}};
}

} // namespace pumice
