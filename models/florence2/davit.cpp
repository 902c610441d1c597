#include "models/florence2/davit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/convolution/pictures.h"
#include "kernel/row_groups.h"
#include "models/encoder/pixels.h"

namespace pumice {

namespace {

constexpr float davit_norm_eps = 1e-5f;                 // torch.nn.LayerNorm's
constexpr uint32_t most_davit_pixels = most_workgroups; // of a picture, and channels
constexpr uint32_t most_davit_window = 128; // pixels on a side: small pictures are filled up to one

// One stage.
class DavitBuilder : PixelBuilder {
public:
  DavitBuilder(EncoderBuilder& builder, const DavitConfig& config, const DavitStage& own,
               const CellLayout& pixels)
      : PixelBuilder(builder, pixels, own.channels, davit_norm_eps), config_(config), own_(own) {}

  // A convolution of the picture, or of the pixels of the stage before.
  TensorId begin(TensorId x, const CellLayout& before, uint32_t channels, bool picture) const {
    if (own_.norm_first) x = norm(x, "norm", channels);
    Convolve operation;
    operation.channels = channels;
    operation.height = before.height;
    operation.width = before.width;
    operation.out_channels = own_.channels;
    operation.kernel_height = operation.kernel_width = own_.patch;
    operation.stride = own_.stride;
    operation.padding = own_.padding;
    operation.planes = picture;
    x = convolve(graph(), node("conv"), x, operation, taps("conv", own_.channels, channels, own_.patch),
                 bias("conv", own_.channels));
    return own_.norm_first ? x : norm(x, "norm", own_.channels);
  }

  // Pixels attend to those of their window.
  TensorId spatial_block(TensorId x) const {
    return block(x, "window_attn", [this](const std::string& name, TensorId y) {
      CellAttention operation;
      operation.cells = pixels();
      operation.heads = own_.heads;
      operation.window = config_.window;
      const std::array inputs = project_inputs(name, y, config_.input_bias);
      return cell_attention(graph(), node(name), inputs[0].x, inputs[1].x, inputs[2].x, operation,
                            inputs[1].bias, inputs[2].bias, {});
    });
  }

  // Channels attend to those of their group.
  TensorId channel_block(TensorId x) const {
    return block(x, "channel_attn", [this](const std::string& name, TensorId y) {
      ChannelAttention operation;
      operation.channels = own_.channels;
      operation.groups = own_.groups;
      operation.scale = 1 / std::sqrt(static_cast<float>(pixels().pixels()));
      const std::array inputs = project_inputs(name, y, config_.input_bias);
      return channel_attention(graph(), node(name), inputs[0].x, inputs[1].x, inputs[2].x, operation);
    });
  }

private:
  template <class Attend>
  TensorId block(TensorId x, const std::string& attention, const Attend& attend) const {
    x = mix(x, "conv1");
    const TensorId y = attend(attention, norm(x, "norm1", own_.channels));
    x = biased(project(y, attention + ".proj", own_.channels), attention + ".proj", x);
    x = mix(x, "conv2");
    return feed_forward(norm(x, "norm2", own_.channels), x,
                        {"ffn.fc1", "ffn.fc2", config_.inner_columns(own_.channels), config_.activation});
  }

  // x, and a convolution of each of its channels by itself: its middle tap has one more.
  TensorId mix(TensorId x, const std::string& name) const {
    constexpr uint32_t kernel = 3, count = kernel * kernel;
    const uint32_t channels = own_.channels;
    const WeightView stored =
        builder().flat_tensor({name, ""}, ".weight", {channels, 1, kernel, kernel}, "attention");
    const WeightView changed =
        builder().derived_tensor(name + ".taps", {count, channels}, [&](std::span<float> values) {
          const std::vector<float> found = decode_vector(stored);
          for (size_t i = 0; i < values.size(); ++i) {
            const size_t tap = i / channels;
            values[i] = found[i % channels * count + tap] + (tap == count / 2 ? 1.0f : 0.0f);
          }
        });
    ConvolveChannels operation;
    operation.channels = channels;
    operation.height = pixels().height;
    operation.width = pixels().width;
    operation.kernel = kernel;
    return convolve_channels(graph(), node(name), x, operation, weight(changed), bias(name, channels));
  }

  const DavitConfig& config_;
  const DavitStage& own_;
};

constexpr uint32_t most_davit_stages = 8;

// A number for each stage.
Result<std::vector<uint32_t>> read_davit_stages(const Settings& settings, std::string_view name,
                                                size_t stages, uint32_t least, uint32_t most,
                                                std::vector<uint32_t> fallback) {
  if (!settings.fields().has(name) && fallback.size() == stages) return fallback;
  PUMICE_TRY(std::vector<uint32_t> found, settings.fields().u32_array_or_empty(name, least, most));
  if (found.size() == stages) return found;
  return settings.error(
      {name, ""},
      fmt::format("expected one for each of the {} stages of embed_dim; found {}", stages, found.size()));
}

Result<std::vector<bool>> read_davit_norms(const Settings& settings, size_t stages) {
  constexpr std::string_view name = "patch_prenorm";
  const nlohmann::json* found = settings.fields().find(name);
  std::vector<bool> norms(4, true);
  norms[0] = false;
  if (found) {
    norms.clear();
    for (const nlohmann::json& each : *found) {
      if (!each.is_boolean()) break;
      norms.push_back(each.get<bool>());
    }
  }
  if (norms.size() == stages && !norms[0]) return norms;
  return settings.error(
      {name, ""},
      fmt::format("expected true or false for each of the {} stages of embed_dim, and false for the "
                  "first; found {}",
                  stages, found ? found->dump() : "none"));
}

Status check_davit_stage(const Settings& settings, const DavitConfig& config, const DavitStage& stage) {
  const uint32_t channels = stage.channels;
  if (channels % (4 * stage.heads) != 0 || channels / stage.heads > limits::head_dim) {
    return settings.error(
        {"num_heads", ""},
        fmt::format("expected heads of a multiple of 4 of the {} columns, at most {}; found {}", channels,
                    limits::head_dim, stage.heads));
  }
  if (channels % (4 * stage.groups) != 0 || channels / stage.groups > limits::head_dim) {
    return settings.error(
        {"num_groups", ""},
        fmt::format("expected groups of a multiple of 4 of the {} columns, at most {}; found {}", channels,
                    limits::head_dim, stage.groups));
  }
  const uint32_t inner = config.inner_columns(channels);
  if (inner == 0 || inner % 4 != 0 || inner > limits::columns) {
    return settings.error(
        {"mlp_ratio", ""},
        fmt::format("expected one that makes {} columns a multiple of 4, at most {}; found {}", channels,
                    limits::columns, config.feed_forward));
  }
  if (stage.patch == 1 && stage.padding > 0)
    return settings.error({"patch_padding", ""},
                          fmt::format("expected 0 for patches of one pixel; found {}", stage.padding));
  return {};
}

} // namespace

CellLayout DavitConfig::pixels_of(const DavitStage& stage, const CellLayout& before) {
  const auto edge = [&](uint32_t pixels) {
    const uint32_t all = pixels + 2 * stage.padding;
    return all < stage.patch ? 0 : (all - stage.patch) / stage.stride + 1;
  };
  return CellLayout::of_pictures(edge(before.height), edge(before.width));
}

CellLayout DavitConfig::last_pixels(uint32_t height, uint32_t width) const {
  CellLayout pixels = CellLayout::of_pictures(height, width);
  for (const DavitStage& stage : stages) pixels = pixels_of(stage, pixels);
  return pixels;
}

Result<DavitConfig> read_davit_config(const Settings& settings) {
  DavitConfig config;
  const Fields& fields = settings.fields();
  PUMICE_TRY(config.colours, settings.u32_or({"in_channels", ""}, 1, 16, 3));
  PUMICE_TRY(std::vector<uint32_t> channels, fields.u32_array_or_empty("embed_dim", 4, most_davit_pixels));
  if (channels.empty()) channels = {128, 256, 512, 1024};
  const size_t count = channels.size();
  if (count > most_davit_stages ||
      std::ranges::any_of(channels, [](uint32_t each) { return each % 4 != 0; })) {
    return settings.error({"embed_dim", ""},
                          fmt::format("expected multiples of 4 for at most {} stages; found {} of them",
                                      most_davit_stages, count));
  }
  constexpr uint32_t most_patch = 64;
  PUMICE_TRY(const auto depths,
             read_davit_stages(settings, "depths", count, 0, limits::layers, {1, 1, 9, 1}));
  PUMICE_TRY(const auto heads,
             read_davit_stages(settings, "num_heads", count, 1, limits::heads, {4, 8, 16, 32}));
  PUMICE_TRY(const auto groups,
             read_davit_stages(settings, "num_groups", count, 1, limits::heads, {4, 8, 16, 32}));
  PUMICE_TRY(const auto patches,
             read_davit_stages(settings, "patch_size", count, 1, most_patch, {7, 3, 3, 3}));
  PUMICE_TRY(const auto strides,
             read_davit_stages(settings, "patch_stride", count, 1, most_patch, {4, 2, 2, 2}));
  PUMICE_TRY(const auto paddings,
             read_davit_stages(settings, "patch_padding", count, 0, most_patch, {3, 1, 1, 1}));
  PUMICE_TRY(const std::vector<bool> norms, read_davit_norms(settings, count));
  PUMICE_TRY(config.window, settings.u32_or({"window_size", ""}, 1, most_davit_window, 12));
  PUMICE_TRY(config.feed_forward, settings.f32_or({"mlp_ratio", ""}, 0.1f, 1e3f, 4));
  // As a double, of which columns are the whole part.
  if (const nlohmann::json* ratio = fields.find("mlp_ratio")) config.feed_forward = ratio->get<double>();
  PUMICE_TRY(config.input_bias, settings.boolean_or({"qkv_bias", ""}, true));
  PUMICE_TRY(config.activation, settings.activation_or({"activation_function", ""}, Activation::gelu));
  for (size_t i = 0; i < count; ++i) {
    config.stages.push_back(
        {depths[i], channels[i], heads[i], groups[i], patches[i], strides[i], paddings[i], norms[i]});
    PUMICE_CHECK(check_davit_stage(settings, config, config.stages.back()));
  }
  return config;
}

Status check_picture(const DavitConfig& config, uint32_t height, uint32_t width) {
  constexpr uint32_t most_edge = 8192;
  CellLayout pixels = CellLayout::of_pictures(height, width);
  if (height > most_edge || width > most_edge)
    return Error{Code::unsupported, fmt::format("a picture of {} x {} pixels: expected edges of at most {}",
                                                height, width, most_edge)};
  for (const DavitStage& stage : config.stages) {
    pixels = DavitConfig::pixels_of(stage, pixels);
    constexpr uint64_t most_values = 1 << 28; // so that places in a row fit 32 bits
    const uint64_t count = uint64_t{pixels.height} * pixels.width,
                   line = uint64_t{pixels.width} * config.inner_columns(stage.channels);
    if (count > 0 && count <= most_davit_pixels && std::max(count * stage.channels, line) <= most_values)
      continue;
    return Error{Code::unsupported,
                 fmt::format("a picture of {} x {} pixels becomes {} x {} of {} channels (vision_config's "
                             "patch_stride, embed_dim, mlp_ratio): expected 1 to {}, and at most {} numbers",
                             height, width, pixels.height, pixels.width, stage.channels, most_davit_pixels,
                             most_values)};
  }
  return {};
}

TensorId build_davit(EncoderBuilder& builder, const DavitConfig& config, uint32_t height, uint32_t width,
                     const std::string& prefix) {
  TensorId x = builder.graph().input("pixel_values", RowKind::outputs, config.colours * height * width);
  CellLayout pixels = CellLayout::of_pictures(height, width);
  uint32_t channels = config.colours;
  for (size_t i = 0; i < config.stages.size(); ++i) {
    const DavitStage& own = config.stages[i];
    const CellLayout before = std::exchange(pixels, DavitConfig::pixels_of(own, pixels));
    const DavitBuilder stage(builder, config, own, pixels);
    builder.prefix(fmt::format("{}convs.{}.", prefix, i), "");
    x = stage.begin(x, before, std::exchange(channels, own.channels), i == 0);
    for (uint32_t layer = 0; layer < own.depth; ++layer) {
      const std::string block = fmt::format("{}blocks.{}.{}.", prefix, i, layer);
      builder.prefix(block + "spatial_block.", "");
      x = stage.spatial_block(x);
      builder.prefix(block + "channel_block.", "");
      x = stage.channel_block(x);
    }
  }
  return x;
}

} // namespace pumice
