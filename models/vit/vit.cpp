#include "models/vit/vit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// What Keys's cubic convolution (1981, with a = -0.75) weighs the four samples around a place by, which is
// `fraction` after the second of them.
std::array<double, 4> cubic_weights(double fraction) {
  constexpr double a = -0.75;
  const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(1 + fraction), near(fraction), near(1 - fraction), far(2 - fraction)};
}

// A place of `size` of a result, in the `from` samples that it is interpolated from: the sample before it,
// and the fraction after that.
std::pair<int64_t, double> sample_before(uint32_t at, uint32_t size, uint32_t from) {
  const double place = (at + 0.5) * from / size - 0.5;
  return {static_cast<int64_t>(std::floor(place)), place - std::floor(place)};
}

// The positions of the tokens before the patches, then the patches', interpolated between those of `table`,
// which repeats its edges outside.
void interpolate_positions(const WeightView& table, const VitConfig& config, std::span<float> to) {
  const PatchShape& shape = config.patches;
  const uint32_t rows = shape.height / shape.patch_height, across = shape.width / shape.patch_width;
  const size_t hidden = config.encoder.hidden, lead = config.lead.size();
  const std::vector<float> from = decode_vector(table);
  std::copy_n(from.begin(), lead * hidden, to.begin());
  const auto clamped = [](int64_t at, uint32_t size) {
    return static_cast<size_t>(std::clamp<int64_t>(at, 0, size - 1));
  };
  for (uint32_t y = 0; y < rows; ++y) {
    const auto before_y = sample_before(y, rows, config.grid_height);
    const std::array<double, 4> weights_y = cubic_weights(before_y.second);
    for (uint32_t x = 0; x < across; ++x) {
      const auto before_x = sample_before(x, across, config.grid_width);
      const std::array<double, 4> weights_x = cubic_weights(before_x.second);
      for (size_t column = 0; column < hidden; ++column) {
        double sum = 0;
        for (int i = 0; i < 4; ++i) {
          const size_t row = clamped(before_y.first + i - 1, config.grid_height) * config.grid_width;
          for (int j = 0; j < 4; ++j) {
            const size_t patch = row + clamped(before_x.first + j - 1, config.grid_width);
            sum += weights_y[i] * weights_x[j] * from[(lead + patch) * hidden + column];
          }
        }
        to[(lead + size_t{y} * across + x) * hidden + column] = static_cast<float>(sum);
      }
    }
  }
}

WeightView position_table(EncoderBuilder& builder, const VitConfig& config) {
  const PatchShape& shape = config.patches;
  const uint64_t hidden = config.encoder.hidden, grid = uint64_t{config.grid_height} * config.grid_width;
  const uint64_t lead = config.lead.size();
  const WeightView table =
      builder.shaped_tensor({"position_embeddings", ""}, "", {1, grid + lead, hidden}, "embedding");
  if (shape.height / shape.patch_height == config.grid_height &&
      shape.width / shape.patch_width == config.grid_width)
    return table;
  return builder.derived_tensor("position_embeddings.interpolated", {shape.count() + lead, hidden},
                                [&](std::span<float> to) { interpolate_positions(table, config, to); });
}

// The rows of the tokens that stand before the patches, then a row for each patch.
TensorId embed(EncoderBuilder& builder, const VitConfig& config) {
  Graph& graph = builder.graph();
  const uint32_t hidden = config.encoder.hidden;
  const TensorId pixels =
      graph.input("pixel_values", RowKind::outputs, config.encoder.shape().input_values());
  const TensorName name = {"patch_embeddings.projection", ""};
  const PatchShape& shape = config.patches;
  const WeightView matrix = builder.flat_tensor(
      name, ".weight", {hidden, shape.channels, shape.patch_height, shape.patch_width}, "embedding");
  const WeightView bias = builder.tensor(name, ".bias", hidden, 0, "embedding");
  TensorId x = patches(graph, "patches", pixels, shape, static_cast<uint32_t>(config.lead.size()));
  x = builder.project(x, builder.node_name(name), matrix, &bias, "embedding");
  for (uint32_t row = 0; row < config.lead.size(); ++row) {
    const WeightView lead = builder.shaped_tensor({config.lead[row], ""}, "", {1, 1, hidden}, "embedding");
    x = lead_token(graph, fmt::format("with_{}", config.lead[row]), x, builder.weight(lead, "embedding"),
                   row);
  }
  if (!config.positions) return x;
  const TensorId positions = position_embedding(graph, "position_embedding",
                                                builder.weight(position_table(builder, config), "embedding"));
  return builder.add(x, positions, "with_positions");
}

// ViT (Dosovitskiy et al. 2020): a pre-norm encoder of the patches of a picture.
class Vit : public EncoderModel {
public:
  Vit(VitConfig config, bool gguf, std::string prefix, std::optional<Activation> pooler)
      : EncoderModel(config.encoder, gguf), vit_(std::move(config)), prefix_(std::move(prefix)),
        pooler_(pooler) {}

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_vit(builder, vit_, prefix_);
    if (!pooler_ && config().labels.empty()) return;
    const TensorId first = builder.first_rows(x);
    if (pooler_) {
      builder.prefix(prefix_, "");
      const TensorId y = builder.project(first, {"pooler.dense", ""}, config().hidden, true, "head");
      builder.pooler_output(activate(builder.graph(), "pooler_output", y, *pooler_));
    }
    builder.prefix("", "");
    if (!config().labels.empty()) builder.logits(first, {"classifier", ""});
  }

private:
  VitConfig vit_;
  std::string prefix_; // of tensor names: "vit.", or empty if the file has only the encoder
  std::optional<Activation> pooler_;
};

// Reads one number for both sides, or height and width.
Result<std::pair<uint32_t, uint32_t>> read_size(const Settings& settings, std::string_view name,
                                                uint32_t fallback) {
  constexpr uint32_t max_edge = 8192; // so that the number of values fits 32 bits
  PUMICE_TRY(std::vector<uint32_t> sides, settings.fields().u32_array_or_empty(name, 1, max_edge));
  if (sides.empty()) return std::pair(fallback, fallback);
  if (sides.size() > 2) {
    return settings.error({name, ""},
                          fmt::format("expected a height and a width; found {} numbers", sides.size()));
  }
  return std::pair(sides.front(), sides.back());
}

} // namespace

Result<VitConfig> read_vit_config(const Settings& settings) {
  VitConfig config;
  PatchShape& shape = config.patches;
  PUMICE_TRY(const auto size, read_size(settings, "image_size", 224));
  PUMICE_TRY(const auto patch, read_size(settings, "patch_size", 16));
  std::tie(shape.patch_height, shape.patch_width) = patch;
  PUMICE_TRY(shape.channels, settings.u32_or({"num_channels", ""}, 1, 16, 3));
  PUMICE_TRY(config.input_bias, settings.boolean_or({"qkv_bias", ""}, true));

  StackConfigNames names;
  names.vocabulary = {};
  names.context = {};
  names.set_heads_share_columns();
  names.norm_eps = {"layer_norm_eps", ""};
  names.default_norm_eps = 1e-12f;
  names.default_activation = Activation::gelu;
  PUMICE_TRY(static_cast<StackConfig&>(config.encoder), read_stack_config(settings, names));
  config.encoder.kind = InputKind::pixels;
  PUMICE_CHECK(set_picture_size(settings, config, size.first, size.second));
  config.grid_height = shape.height / shape.patch_height;
  config.grid_width = shape.width / shape.patch_width;
  return config;
}

Status set_picture_size(const Settings& settings, VitConfig& config, uint32_t height, uint32_t width) {
  PatchShape& shape = config.patches;
  shape.height = height;
  shape.width = width;
  if (height % shape.patch_height || width % shape.patch_width) {
    return settings.error({"patch_size", ""},
                          fmt::format("expected a divisor of the picture's {} x {}; found {} x {}", height,
                                      width, shape.patch_height, shape.patch_width));
  }
  config.encoder.context = shape.count() + static_cast<uint32_t>(config.lead.size());
  config.encoder.input_shape = {shape.channels, height, width};
  return {};
}

void set_lead(VitConfig& config, std::vector<std::string_view> tensors) {
  config.lead = std::move(tensors);
  config.encoder.context = config.patches.count() + static_cast<uint32_t>(config.lead.size());
}

LayerNames vit_layer_names(const VitConfig& config, const std::string& prefix) {
  LayerNames names;
  names.hugging_face = prefix + "encoder.layer.{}.";
  names.norm_first = true;
  names.attention.query = {"attention.attention.query", ""};
  names.attention.key = {"attention.attention.key", ""};
  names.attention.value = {"attention.attention.value", ""};
  names.attention.output = {"attention.output.dense", ""};
  names.attention.input_bias = config.input_bias;
  names.attention_norm = {"layernorm_before", ""};
  names.up = {"intermediate.dense", ""};
  names.down = {"output.dense", ""};
  names.feed_forward_norm = {"layernorm_after", ""};
  return names;
}

TensorId build_vit(EncoderBuilder& builder, const VitConfig& config, const std::string& prefix,
                   const LayerNames& names, const AttentionStyle& style) {
  builder.prefix(prefix + "embeddings.", "");
  TensorId x = builder.run_layers(embed(builder, config), names, style);
  builder.prefix(prefix, "");
  if (config.final_norm) x = builder.layer_norm(x, {"layernorm", ""});
  builder.finish(x);
  return x;
}

namespace {

OpenedDefinition open_vit(const ModelFile& file) {
  const Settings settings(file);
  PUMICE_TRY(VitConfig config, read_vit_config(settings));
  std::string prefix = file.find("vit.embeddings.cls_token") ? "vit." : "";
  std::optional<Activation> pooler;
  if (file.find(prefix + "pooler.dense.weight")) {
    PUMICE_TRY(pooler, settings.activation_or({"pooler_act", ""}, Activation::tanh));
  }
  if (file.find("classifier.weight")) {
    PUMICE_TRY(config.encoder.labels, read_labels(settings));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Vit>(std::move(config), settings.gguf(), std::move(prefix), pooler));
}

} // namespace

Architectures vit_models() {
  return {{"vit", {"vit"}, {}, open_vit}};
}

} // namespace pumice
