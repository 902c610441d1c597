#include "models/vit/donut_swin.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "kernel/heads/heads.h"
#include "kernel/norm/norm.h"

namespace pumice {

namespace {

constexpr float plain_norm_eps = 1e-5f; // of norms outside of layers

// One stage's layers. All products are over pixels, of which a row of the step has several.
class Stage {
public:
  Stage(EncoderBuilder& builder, const DonutSwinConfig& config, const CellLayout& cells, uint32_t channels,
        uint32_t heads)
      : builder_(builder), config_(config), cells_(cells), channels_(channels), heads_(heads) {}

  TensorId layer(TensorId x, uint32_t index) const {
    const TensorId attended = attend(norm(x, "layernorm_before", channels_, config_.encoder.norm_eps), index);
    x = biased(project(attended, "attention.output.dense", channels_), "attention.output.dense", x,
               channels_);
    const TensorId fed = feed_forward(norm(x, "layernorm_after", channels_, config_.encoder.norm_eps));
    return biased(fed, "output.dense", x, channels_);
  }

  // Four pixels become one of twice the channels.
  TensorId merge(TensorId x) const {
    const uint32_t joined = 4 * channels_;
    const TensorId y = norm(x, "downsample.norm", joined, plain_norm_eps);
    return project(y, "downsample.reduction", 2 * channels_, cells_.pixels() / 4);
  }

  TensorId norm(TensorId x, std::string_view name, uint32_t columns, float eps) const {
    const WeightView weight = builder_.tensor({name, ""}, ".weight", columns, 0, "norms"),
                     bias = builder_.tensor({name, ""}, ".bias", columns, 0, "norms");
    return grouped_layer_norm(graph(), node(name), x, builder_.weight(weight, "norms"),
                              builder_.weight(bias, "norms"), graph().tensor(x).columns / columns, eps);
  }

  // A product with its bias, and the residual if there is one.
  TensorId biased(TensorId x, std::string_view name, std::optional<TensorId> residual,
                  uint32_t columns) const {
    const WeightView bias = builder_.tensor({name, ""}, ".bias", columns, 0, "attention");
    return sums(x, name, residual, builder_.weight(bias, "attention"));
  }

private:
  Graph& graph() const { return builder_.graph(); }
  std::string node(std::string_view name) const { return builder_.prefix() + std::string(name); }

  TensorId sums(TensorId x, std::string_view name, std::optional<TensorId> residual, WeightId bias) const {
    CellSums operation;
    operation.cells = cells_;
    return cell_sums(graph(), node(name) + ".sum", x, residual, operation, bias);
  }

  TensorId project(TensorId x, std::string_view name, uint32_t rows) const {
    return project(x, name, rows, cells_.pixels());
  }

  // A product of the channels of each of so many pixels, or pixels that were joined.
  TensorId project(TensorId x, std::string_view name, uint32_t rows, uint32_t pixels,
                   std::string_view ending = "") const {
    const uint32_t columns = graph().tensor(x).columns / pixels;
    const WeightView matrix = builder_.tensor({name, ""}, ".weight", rows, columns, "attention");
    return shared_head_linear(graph(), node(name) + std::string(ending), x, {columns, 0, columns}, pixels,
                              builder_.weight(matrix, "attention"));
  }

  // Without the last bias. What is between its products has several times the columns of x: four parts of a
  // cell's pixels take the same memory one after the other.
  TensorId feed_forward(TensorId x) const {
    const uint32_t inner = config_.inner_columns(channels_);
    const uint32_t parts = cells_.side > 1 ? 4 : 1, pixels = cells_.pixels() / parts,
                   columns = pixels * channels_;
    const WeightView bias = builder_.tensor({"intermediate.dense", ""}, ".bias", inner, 0, "attention");
    CellSums activate;
    activate.cells = CellLayout::endless(parts > 1 ? cells_.side / 2 : cells_.side);
    activate.activation = config_.encoder.activation;
    std::optional<TensorId> all;
    for (uint32_t part = 0; part < parts; ++part) {
      const std::string ending = fmt::format(".{}", part);
      const TensorId input = graph().add_tensor(
          {node("layernorm_after") + ending, RowKind::tokens, columns, View{x, part * columns}});
      TensorId y = project(input, "intermediate.dense", inner, pixels, ending);
      y = cell_sums(graph(), node("intermediate.sum") + ending, y, {}, activate,
                    builder_.weight(bias, "attention"));
      y = project(y, "output.dense", channels_, pixels, ending);
      all = all ? join_heads(graph(), node("parts") + ending, *all, {0, 0, part * columns}, y,
                             {0, 0, columns}, 1)
                : y;
    }
    return *all;
  }

  WeightId input_bias(std::string_view name) const {
    if (config_.input_bias)
      return builder_.weight(builder_.tensor({name, ""}, ".bias", channels_, 0, "attention"), "attention");
    const WeightView zeros = builder_.derived_tensor(
        "no_bias", {channels_}, [](std::span<float> values) { std::ranges::fill(values, 0.0f); });
    return builder_.weight(zeros, "attention");
  }

  TensorId attend(TensorId x, uint32_t index) const {
    const uint32_t span = 2 * config_.window - 1;
    CellAttention operation;
    operation.cells = cells_;
    operation.heads = heads_;
    operation.window = config_.window;
    // A picture that is one window is not shifted.
    if (index % 2 == 1 && std::min(cells_.height, cells_.width) > config_.window)
      operation.shift = config_.window / 2;
    const WeightView table = builder_.tensor({"attention.self.relative_position_bias_table", ""}, "",
                                             span * span, heads_, "attention");
    const auto input = [&](std::string_view name) {
      return sums(project(x, name, channels_), name, {}, input_bias(name));
    };
    constexpr std::string_view query = "attention.self.query", key = "attention.self.key",
                               value = "attention.self.value";
    return cell_attention(graph(), node("attention"), input(query), input(key), input(value), operation,
                          input_bias(key), input_bias(value), builder_.weight(table, "attention"));
  }

  EncoderBuilder& builder_;
  const DonutSwinConfig& config_;
  const CellLayout cells_;
  const uint32_t channels_, heads_;
};

// One number for both sides, or height and width.
Result<std::pair<uint32_t, uint32_t>> read_sides(const Settings& settings, std::string_view name,
                                                 uint32_t fallback) {
  constexpr uint32_t most_edge = 8192; // so that the number of values fits 32 bits
  PUMICE_TRY(const std::vector<uint32_t> sides, settings.fields().u32_array_or_empty(name, 1, most_edge));
  if (sides.empty()) return std::pair(fallback, fallback);
  if (sides.size() <= 2) return std::pair(sides.front(), sides.back());
  return settings.error({name, ""},
                        fmt::format("expected a height and a width; found {} numbers", sides.size()));
}

// What stands in each stage's layers. `patch`: numbers of a patch.
Status check_stages(const Settings& settings, const DonutSwinConfig& config, uint64_t patch) {
  const SettingName heads = {"num_heads", ""}, window = {"window_size", ""};
  constexpr size_t most_stages = 8;
  if (config.depths.size() > most_stages) {
    return settings.error({"depths", ""}, fmt::format("expected at most {} stages; found {}", most_stages,
                                                      config.depths.size()));
  }
  if (config.heads.size() != config.depths.size()) {
    return settings.error(heads, fmt::format("expected one for each of the {} stages; found {}",
                                             config.depths.size(), config.heads.size()));
  }
  if (config.channels % 4)
    return settings.error({"embed_dim", ""},
                          fmt::format("expected a multiple of 4; found {}", config.channels));
  const uint64_t last = uint64_t{config.channels} << (config.depths.size() - 1);
  if (last > limits::columns) {
    return settings.error(
        {"embed_dim", ""},
        fmt::format("expected one that makes at most {} columns in the last stage; found {}", limits::columns,
                    config.channels));
  }
  CellLayout cells = config.cells();
  uint32_t channels = config.channels;
  for (const uint32_t each : config.heads) {
    if (channels % (4 * each) != 0 || channels / each > limits::head_dim) {
      return settings.error(heads, fmt::format("expected heads of a multiple of 4 of the {} columns, at most "
                                               "{}; found {}",
                                               channels, limits::head_dim, each));
    }
    if (config.inner_columns(channels) % 4 != 0 || config.inner_columns(channels) == 0) {
      return settings.error({"mlp_ratio", ""},
                            fmt::format("expected one that makes {} columns a multiple of 4; found {}",
                                        channels, config.feed_forward));
    }
    if (std::min(cells.height, cells.width) < config.window) {
      return settings.error(window,
                            fmt::format("expected at most the {} x {} pixels of the last stage; found {}",
                                        cells.height, cells.width, config.window));
    }
    constexpr uint64_t most = 1 << 26; // so that places in a row of the step fit 32 bits
    const uint64_t widest = std::max({patch, uint64_t{channels}, uint64_t{config.inner_columns(channels)}});
    if (cells.pixels() * widest > most) {
      return settings.error({widest == patch ? "patch_size" : "embed_dim", ""},
                            fmt::format("expected stages of at most {} numbers in a cell of the picture; "
                                        "found {} pixels of {}",
                                        most, cells.pixels(), widest));
    }
    patch = 0; // later stages have none
    cells = cells.halved();
    channels *= 2;
  }
  return {};
}

} // namespace

CellLayout DonutSwinConfig::cells() const {
  return {(height + patch_height - 1) / patch_height, (width + patch_width - 1) / patch_width,
          1u << (depths.size() - 1)};
}

// Swin (Liu et al. 2021) as Donut has it (Kim et al., OCR-free Document Understanding Transformer, 2021):
// stages of layers whose attention is in windows, every other one shifted; between them four pixels become
// one.
Result<DonutSwinConfig> read_donut_swin_config(const Settings& settings) {
  DonutSwinConfig config;
  const Fields& fields = settings.fields();
  PUMICE_TRY(const auto size, read_sides(settings, "image_size", 224));
  PUMICE_TRY(const auto patch, read_sides(settings, "patch_size", 4));
  std::tie(config.height, config.width) = size;
  std::tie(config.patch_height, config.patch_width) = patch;
  PUMICE_TRY(config.channels, settings.u32_or({"embed_dim", ""}, 4, limits::columns, 96));
  PUMICE_TRY(config.depths, fields.u32_array_or_empty("depths", 1, limits::layers));
  if (config.depths.empty()) config.depths = {2, 2, 6, 2};
  PUMICE_TRY(config.heads, fields.u32_array_or_empty("num_heads", 1, limits::heads));
  if (config.heads.empty()) config.heads = {3, 6, 12, 24};
  PUMICE_TRY(config.window, settings.u32_or({"window_size", ""}, 1, 1024, 7));
  PUMICE_TRY(config.feed_forward, settings.f32_or({"mlp_ratio", ""}, 0.1f, 1e3f, 4));
  PUMICE_TRY(config.input_bias, settings.boolean_or({"qkv_bias", ""}, true));
  PUMICE_CHECK(settings.expect("use_absolute_embeddings", false, false));
  PUMICE_TRY(const uint32_t colours, settings.u32_or({"num_channels", ""}, 1, 16, 3));
  PUMICE_CHECK(check_stages(settings, config, uint64_t{colours} * config.patch_height * config.patch_width));
  EncoderConfig& encoder = config.encoder;
  PUMICE_TRY(encoder.norm_eps, settings.f32_or({"layer_norm_eps", ""}, 0, 1, 1e-5f));
  PUMICE_TRY(encoder.activation, settings.activation_or({"hidden_act", ""}, Activation::gelu));
  encoder.kind = InputKind::pixels;
  encoder.input_shape = {colours, config.height, config.width};
  encoder.context = config.cells().count();
  encoder.hidden = config.channels << (config.depths.size() - 1);
  for (const uint32_t depth : config.depths) encoder.layers += depth;
  return config;
}

TensorId build_donut_swin(EncoderBuilder& builder, const DonutSwinConfig& config, const std::string& prefix) {
  Graph& graph = builder.graph();
  const EncoderConfig& encoder = config.encoder;
  CellLayout cells = config.cells();
  uint32_t channels = config.channels;
  builder.prefix(prefix + "embeddings.", "");
  CellPatches patches;
  patches.cells = cells;
  patches.channels = encoder.input_shape[0];
  patches.height = config.height;
  patches.width = config.width;
  patches.patch_height = config.patch_height;
  patches.patch_width = config.patch_width;
  const TensorId pixels = graph.input("pixel_values", RowKind::outputs, encoder.shape().input_values());
  const uint32_t columns = patches.channels * config.patch_height * config.patch_width;
  const TensorName name = {"patch_embeddings.projection", ""};
  const WeightView matrix = builder.flat_tensor(
      name, ".weight", {channels, patches.channels, config.patch_height, config.patch_width}, "embedding");
  TensorId x = cell_patches(graph, "patches", pixels, patches);
  x = shared_head_linear(graph, builder.node_name(name), x, {columns, 0, columns}, cells.pixels(),
                         builder.weight(matrix, "embedding"));
  const Stage first(builder, config, cells, channels, config.heads[0]);
  x = first.norm(first.biased(x, name.hugging_face, {}, channels), "norm", channels, plain_norm_eps);
  for (size_t stage = 0; stage < config.depths.size(); ++stage) {
    const Stage own(builder, config, cells, channels, config.heads[stage]);
    const std::string layers = fmt::format("{}encoder.layers.{}.", prefix, stage);
    for (uint32_t layer = 0; layer < config.depths[stage]; ++layer) {
      builder.prefix(fmt::format("{}blocks.{}.", layers, layer), "");
      x = own.layer(x, layer);
    }
    if (stage + 1 == config.depths.size()) break;
    builder.prefix(layers, "");
    x = own.merge(x);
    cells = cells.halved();
    channels *= 2;
  }
  builder.finish(x);
  return x;
}

} // namespace pumice
