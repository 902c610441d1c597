#include "models/deepseek/sam.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/convolution/pictures.h"
#include "kernel/heads/heads.h"
#include "kernel/row_groups.h"

namespace pumice {

namespace {

constexpr float neck_norm_eps = 1e-6f;

// `to` places on a line of `from` numbers, which lie `stride` apart, as torch interpolates them.
struct TableLine {
  size_t from = 0, to = 0, stride = 1;
};

// The middle of a place among those of the other line.
double table_middle(size_t place, const TableLine& line) {
  return (static_cast<double>(place) + 0.5) * static_cast<double>(line.from) / static_cast<double>(line.to);
}

// Cubic convolution, which is widened where places become fewer.
void interpolate_cubic(const float* in, float* out, const TableLine& line) {
  const double stretch = std::max(static_cast<double>(line.from) / static_cast<double>(line.to), 1.0);
  const auto weight = [](double x) {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
  };
  for (size_t place = 0; place < line.to; ++place) {
    const double middle = table_middle(place, line), reach = 2 * stretch;
    const auto first = static_cast<size_t>(std::max(middle - reach + 0.5, 0.0));
    const size_t end = std::min(static_cast<size_t>(std::max(middle + reach + 0.5, 0.0)), line.from);
    double sum = 0, total = 0;
    for (size_t i = first; i < end; ++i) {
      const double share = weight((static_cast<double>(i) - middle + 0.5) / stretch);
      sum += share * in[i * line.stride];
      total += share;
    }
    out[place * line.stride] = static_cast<float>(sum / total);
  }
}

void interpolate_linear(const float* in, float* out, const TableLine& line) {
  for (size_t place = 0; place < line.to; ++place) {
    const double at = std::max(table_middle(place, line) - 0.5, 0.0);
    const auto first = static_cast<size_t>(at);
    const size_t next = std::min(first + 1, line.from - 1);
    const double share = at - static_cast<double>(first);
    out[place * line.stride] =
        static_cast<float>((1 - share) * in[first * line.stride] + share * in[next * line.stride]);
  }
}

class SamBuilder : PixelBuilder {
public:
  SamBuilder(EncoderBuilder& builder, const SamConfig& config, uint32_t edge, std::string prefix)
      : PixelBuilder(builder, CellLayout::of_pictures(edge / config.patch, edge / config.patch),
                     config.hidden, config.norm_eps),
        config_(config), edge_(edge), prefix_(std::move(prefix)) {}

  TensorId patches() const {
    builder().prefix(prefix_, "");
    Convolve operation;
    operation.channels = config_.colours;
    operation.height = operation.width = edge_;
    operation.out_channels = config_.hidden;
    operation.kernel_height = operation.kernel_width = operation.stride = config_.patch;
    operation.planes = true;
    const TensorId input = graph().input("pixel_values", RowKind::outputs, config_.colours * edge_ * edge_);
    const TensorId x = convolve(graph(), node("patch_embed.proj"), input, operation,
                                taps("patch_embed.proj", config_.hidden, config_.colours, config_.patch),
                                bias("patch_embed.proj", config_.hidden));
    if (!config_.positions) return x;
    CellSums sum;
    sum.cells = CellLayout::of_pictures(1, 1);
    return cell_sums(graph(), node("with_positions"), x, {}, sum, positions());
  }

  TensorId layer(uint32_t index, TensorId x) const {
    builder().prefix(fmt::format("{}blocks.{}.", prefix_, index), "");
    const uint32_t window = config_.whole[index] ? pixels().height : config_.window;
    const TensorId y = attend(norm(x, "norm1", config_.hidden), window,
                              config_.whole[index] ? config_.side : config_.window);
    x = biased(project(y, "attn.proj", config_.hidden), "attn.proj", x);
    return feed_forward(norm(x, "norm2", config_.hidden), x,
                        {"mlp.lin1", "mlp.lin2", config_.feed_forward, config_.activation});
  }

  TensorId neck(TensorId x) const {
    builder().prefix(prefix_, "");
    const uint32_t channels = config_.neck;
    const WeightView first =
        builder().flat_tensor({"neck.0", ""}, ".weight", {channels, config_.hidden, 1, 1}, "projector");
    x = product(x, "neck.0", first);
    const PixelNorm norms(*this, channels);
    x = norms.norm(x, "neck.1", channels);
    uint32_t side = pixels().height;
    x = shrink(x, "neck.2", channels, channels, side, 1);
    x = norms.norm(x, "neck.3", channels);
    x = shrink(x, "net_2", channels, config_.between, side, 2);
    return shrink(x, "net_3", config_.between, config_.out, side, 2);
  }

private:
  // Norms with an epsilon of their own.
  struct PixelNorm : PixelBuilder {
    PixelNorm(const SamBuilder& of, uint32_t channels)
        : PixelBuilder(of.builder(), of.pixels(), channels, neck_norm_eps) {}
    using PixelBuilder::norm;
  };

  TensorId attend(TensorId x, uint32_t window, uint32_t trained) const {
    CellAttention operation;
    operation.cells = pixels();
    operation.heads = config_.heads;
    operation.window = window;
    const std::array inputs = project_inputs("attn", x, config_.input_bias);
    std::optional<TensorId> scores;
    if (config_.distances) {
      const uint32_t dim = config_.hidden / config_.heads;
      scores = shared_head_linear(graph(), node("attn.distance_scores"), inputs[0].x, {dim, 0, dim},
                                  pixels().pixels() * config_.heads,
                                  distances(window, trained, operation.score_columns()));
    }
    return cell_attention(graph(), node("attn"), inputs[0].x, inputs[1].x, inputs[2].x, operation,
                          inputs[1].bias, inputs[2].bias, {}, scores);
  }

  TensorId shrink(TensorId x, const std::string& name, uint32_t from, uint32_t to, uint32_t& side,
                  uint32_t stride) const {
    Convolve operation;
    operation.channels = from;
    operation.height = operation.width = side;
    operation.out_channels = to;
    operation.kernel_height = operation.kernel_width = 3;
    operation.stride = stride;
    operation.padding = 1;
    side = operation.out_height();
    return convolve(graph(), node(name), x, operation, taps(name, to, from, 3), {});
  }

  // What is added to each patch, of the table of the pictures that it was trained with.
  WeightId positions() const {
    const size_t from = config_.side, to = pixels().height, columns = config_.hidden;
    const WeightView stored =
        builder().shaped_tensor({"pos_embed", ""}, "", {1, from, from, columns}, "embedding");
    return weight(builder().derived_tensor(
        fmt::format("positions.{}", to), {to * to * columns}, [&](std::span<float> values) {
          const std::vector<float> table = decode_vector(stored);
          if (from == to) {
            std::ranges::copy(table, values.begin());
            return;
          }
          std::vector<float> lines(from * to * columns); // of as many as there were
          for (size_t row = 0; row < from; ++row) {
            for (size_t column = 0; column < columns; ++column)
              interpolate_cubic(table.data() + row * from * columns + column,
                                lines.data() + row * to * columns + column, {from, to, columns});
          }
          for (size_t at = 0; at < to * columns; ++at)
            interpolate_cubic(lines.data() + at, values.data() + at, {from, to, to * columns});
        }));
  }

  // For a head's query the rows of distances down, and across, and a row of zeros behind each.
  WeightId distances(uint32_t window, uint32_t trained, uint32_t rows) const {
    const size_t dim = config_.hidden / config_.heads, from = 2 * trained - 1, to = 2 * window - 1;
    const auto table = [&](std::string_view name) {
      return builder().tensor({name, ""}, "", from, dim, "attention");
    };
    const WeightView down = table("attn.rel_pos_h"), across = table("attn.rel_pos_w");
    return weight(builder().derived_tensor(
        fmt::format("attn.distances.{}", window), {rows, dim}, [&](std::span<float> values) {
          std::ranges::fill(values, 0.0f);
          for (const bool second : {false, true}) {
            const std::vector<float> stored = decode_vector(second ? across : down);
            float* out = values.data() + (second ? values.size() / 2 : 0);
            for (size_t column = 0; column < dim; ++column)
              interpolate_linear(stored.data() + column, out + column, {from, to, dim});
          }
        }));
  }

  const SamConfig& config_;
  const uint32_t edge_;
  const std::string prefix_;
};

// By layer: those that attend to the whole picture.
Result<std::vector<bool>> read_whole_layers(const Settings& settings, uint32_t layers) {
  constexpr std::string_view name = "global_attn_indexes";
  std::vector<uint32_t> chosen = {2, 5, 8, 11};
  if (settings.fields().has(name)) {
    PUMICE_TRY(chosen, settings.fields().u32_array(name, 0, limits::layers));
  }
  std::vector<bool> whole(layers);
  for (uint32_t index : chosen) {
    if (index < layers) whole[index] = true;
  }
  return whole;
}

Status check_sam(const Settings& settings, const SamConfig& config) {
  if (config.hidden % (4 * config.heads) != 0 || config.hidden / config.heads > limits::head_dim) {
    return settings.error(
        {"num_attention_heads", ""},
        fmt::format("expected heads of a multiple of 4 of the {} columns, at most {}; found {}",
                    config.hidden, limits::head_dim, config.heads));
  }
  for (const auto& [name, found] :
       {std::pair("mlp_dim", config.feed_forward), {"output_channels", config.neck}}) {
    if (found % 4 != 0)
      return settings.error({name, ""}, fmt::format("expected a multiple of 4; found {}", found));
  }
  return {};
}

} // namespace

Result<SamConfig> read_sam_config(const Settings& settings) {
  SamConfig config;
  PUMICE_TRY(config.colours, settings.u32_or({"num_channels", ""}, 1, 16, 3));
  PUMICE_TRY(config.patch, settings.u32_or({"patch_size", ""}, 1, 256, 16));
  PUMICE_TRY(const uint32_t edge,
             settings.u32_or({"image_size", ""}, config.patch, SamConfig::most_side * config.patch, 1024));
  config.side = edge / config.patch;
  PUMICE_TRY(config.hidden, settings.u32_or({"hidden_size", ""}, 4, most_workgroups, 768));
  PUMICE_TRY(config.heads, settings.u32_or({"num_attention_heads", ""}, 1, limits::heads, 12));
  PUMICE_TRY(const uint32_t layers, settings.u32_or({"num_hidden_layers", ""}, 1, limits::layers, 12));
  PUMICE_TRY(config.whole, read_whole_layers(settings, layers));
  PUMICE_TRY(config.window, settings.u32_or({"window_size", ""}, 0, SamConfig::most_side, 14));
  if (config.window == 0) config.whole.assign(layers, true);
  PUMICE_TRY(const float ratio, settings.f32_or({"mlp_ratio", ""}, 0.1f, 1e3f, 4));
  const auto inner = static_cast<uint32_t>(static_cast<float>(config.hidden) * ratio);
  PUMICE_TRY(config.feed_forward, settings.u32_or({"mlp_dim", ""}, 4, limits::columns, inner));
  PUMICE_TRY(config.neck, settings.u32_or({"output_channels", ""}, 4, most_workgroups, 256));
  constexpr std::string_view shrinking = "downsample_channels";
  PUMICE_TRY(std::vector<uint32_t> channels,
             settings.fields().u32_array_or_empty(shrinking, 4, most_workgroups));
  if (channels.empty()) channels = {config.between, config.out};
  if (channels.size() != 2 || channels[0] % 4 != 0 || channels[1] % 4 != 0)
    return settings.error({shrinking, ""},
                          fmt::format("expected two multiples of 4; found {}", fmt::join(channels, ", ")));
  config.between = channels[0];
  config.out = channels[1];
  PUMICE_TRY(config.norm_eps, settings.f32_or({"layer_norm_eps", ""}, 0.0f, 1.0f, 1e-6f));
  PUMICE_TRY(config.input_bias, settings.boolean_or({"qkv_bias", ""}, true));
  PUMICE_TRY(config.positions, settings.boolean_or({"use_abs_pos", ""}, true));
  PUMICE_TRY(config.distances, settings.boolean_or({"use_rel_pos", ""}, true));
  PUMICE_TRY(config.activation, settings.activation_or({"hidden_act", ""}, Activation::gelu));
  PUMICE_CHECK(check_sam(settings, config));
  return config;
}

TensorId build_sam(EncoderBuilder& builder, const SamConfig& config, uint32_t edge,
                   const std::string& prefix) {
  const SamBuilder sam(builder, config, edge, prefix);
  TensorId x = sam.patches();
  for (uint32_t index = 0; index < config.whole.size(); ++index) x = sam.layer(index, x);
  return sam.neck(x);
}

} // namespace pumice
