#include "models/qwen/qwen_vision.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/heads/heads.h"
#include "kernel/image/image.h"
#include "media/preprocess.h"
#include "model/vocabulary.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"
#include "shaders/common/step.h"

namespace pumice {

struct QwenVisionStyle {
  std::string_view gguf_projector; // clip.projector_type
  nlohmann::json defaults;         // of vision_config, by its class
  // Of the encoder's columns, and of the decoder's.
  std::string_view hidden = "hidden_size", out = "out_hidden_size";
  NormKind norm = NormKind::layer;
  bool windows = false;                                   // in most layers
  TensorName positions = {};                              // a table of learned ones, or none
  GridPositions::Rule rule = GridPositions::Rule::linear; // of their interpolation
  bool image_side = false;                                // the table's is that of pictures of `image_size`
  std::optional<TensorName> patch_norm = {}; // of what the patches become, before their positions
  bool patch_bias = false;
  bool biases = true;      // of the layers' matrices, but for queries, keys and values by a setting
  bool fused_gguf = false; // queries, keys and values are one tensor in GGUF too
  std::optional<TensorName> gate;
  TensorName up, down;
  TensorName merger_norm, first, second; // of the layers that make a row of a square
  bool gated_merger = false;  // they are a convolution and a gated feed-forward of a size of its own
  bool thrice_merged = false; // whose size is three times the decoder's columns, a colour each
  bool head_norms = false;    // of queries and keys
  uint32_t least_squares = 4; // of a picture, for GGUF files that do not say
};

const QwenVisionStyle& qwen2_vision() {
  static const QwenVisionStyle style = {.gguf_projector = "qwen2vl_merger",
                                        .defaults = {{"depth", 32},
                                                     {"embed_dim", 1280},
                                                     {"hidden_size", 3584},
                                                     {"hidden_act", "quick_gelu"},
                                                     {"mlp_ratio", 4},
                                                     {"num_heads", 16}},
                                        .hidden = "embed_dim",
                                        .out = "hidden_size",
                                        .gate = {},
                                        .up = {"mlp.fc1", "ffn_up"},
                                        .down = {"mlp.fc2", "ffn_down"},
                                        .merger_norm = {"ln_q", "v.post_ln"},
                                        .first = {"mlp.0", "mm.0"},
                                        .second = {"mlp.2", "mm.2"}};
  return style;
}

const QwenVisionStyle& qwen2_5_vision() {
  static const QwenVisionStyle style = [] {
    QwenVisionStyle own = qwen2_vision();
    own.gguf_projector = "qwen2.5vl_merger";
    own.defaults = {{"depth", 32},     {"hidden_size", 3584},     {"intermediate_size", 3420},
                    {"num_heads", 16}, {"out_hidden_size", 3584}, {"fullatt_block_indexes", {7, 15, 23, 31}}};
    own.hidden = "hidden_size";
    own.out = "out_hidden_size";
    own.norm = NormKind::rms;
    own.windows = true;
    own.gate = TensorName{"mlp.gate_proj", "ffn_gate"};
    own.up.hugging_face = "mlp.up_proj";
    own.down.hugging_face = "mlp.down_proj";
    return own;
  }();
  return style;
}

const QwenVisionStyle& qwen3_vision() {
  static const QwenVisionStyle style = {.gguf_projector = "qwen3vl_merger",
                                        .defaults = {{"depth", 27},
                                                     {"hidden_size", 1152},
                                                     {"hidden_act", "gelu_pytorch_tanh"},
                                                     {"intermediate_size", 4304},
                                                     {"num_heads", 16},
                                                     {"patch_size", 16},
                                                     {"out_hidden_size", 3584},
                                                     {"num_position_embeddings", 2304},
                                                     {"deepstack_visual_indexes", {8, 16, 24}}},
                                        .positions = {"pos_embed", "position_embd"},
                                        .patch_bias = true,
                                        .fused_gguf = true,
                                        .gate = {},
                                        .up = {"mlp.linear_fc1", "ffn_up"},
                                        .down = {"mlp.linear_fc2", "ffn_down"},
                                        .merger_norm = {"norm", "v.post_ln"},
                                        .first = {"linear_fc1", "mm.0"},
                                        .second = {"linear_fc2", "mm.2"},
                                        .least_squares = 64};
  return style;
}

const QwenVisionStyle& qwen3_5_vision() {
  static const QwenVisionStyle style = [] {
    QwenVisionStyle own = qwen3_vision();
    own.defaults.erase("deepstack_visual_indexes");
    return own;
  }();
  return style;
}

const QwenVisionStyle& glm4v_vision() {
  static const QwenVisionStyle style = {.gguf_projector = "glm4v",
                                        .defaults = {{"depth", 24},
                                                     {"hidden_act", "silu"},
                                                     {"hidden_size", 1536},
                                                     {"intermediate_size", 13696},
                                                     {"num_heads", 12},
                                                     {"image_size", 336},
                                                     {"out_hidden_size", 4096},
                                                     {"rms_norm_eps", 1e-5}},
                                        .norm = NormKind::rms,
                                        .positions = {"embeddings.position_embedding", "position_embd"},
                                        .rule = GridPositions::Rule::cubic,
                                        .image_side = true,
                                        .patch_norm = TensorName{"post_conv_layernorm", "norm_embd"},
                                        .patch_bias = true,
                                        .biases = false,
                                        .fused_gguf = true,
                                        .gate = TensorName{"mlp.gate_proj", "ffn_gate"},
                                        .up = {"mlp.up_proj", "ffn_up"},
                                        .down = {"mlp.down_proj", "ffn_down"},
                                        .merger_norm = {"post_layernorm", "v.post_ln"},
                                        .gated_merger = true,
                                        .least_squares = 8};
  return style;
}

const QwenVisionStyle& glm_ocr_vision() {
  static const QwenVisionStyle style = [] {
    QwenVisionStyle own = glm4v_vision();
    own.defaults = {{"depth", 24},          {"hidden_act", "silu"},    {"hidden_size", 1024},
                    {"num_heads", 16},      {"out_hidden_size", 1536}, {"intermediate_size", 4096},
                    {"rms_norm_eps", 1e-5}, {"attention_bias", true}};
    own.positions = {};
    own.patch_norm = {};
    own.biases = true;
    own.thrice_merged = own.head_norms = true;
    return own;
  }();
  return style;
}

namespace {

// A step of the tower has room for a picture of so many patches: 3.2 million pixels where they have 14 on
// each side, 4096 rows. Larger ones are made smaller.
constexpr uint32_t most_patches = 16384;
constexpr uint32_t most_edge = 256; // of a patch
constexpr uint32_t most_merge = 16;
constexpr uint32_t most_side = 1024; // of a table of positions
constexpr float merger_eps = 1e-5f;  // of a gated merger's norm, which no setting changes

struct QwenVision {
  QwenVisionStyle style;
  EncoderConfig encoder;
  std::string prefix;                // of Hugging Face's tensor names
  uint32_t side = 0;                 // of the table of positions
  std::vector<uint32_t> deep_layers; // whose results the decoder's first layers read
  uint32_t size = 0;                 // columns of the decoder's embeddings
  uint32_t merger_feed_forward = 0;  // of a gated merger
  bool input_bias = true;            // of queries, keys and values
  bool gguf = false;                 // the format of its file

  uint32_t joined() const { return encoder.patch_groups->merge * encoder.patch_groups->merge; }
};

// GGUF's keys that other towers do not have.
namespace qwen_keys {
constexpr std::string_view window = "vision.window_size";  // in pixels
constexpr std::string_view period = "vision.n_wa_pattern"; // the last of so many layers sees all
constexpr std::string_view deep = "vision.is_deepstack_layers";
constexpr std::string_view min_pixels = "vision.image_min_pixels";
constexpr std::string_view max_pixels = "vision.image_max_pixels";
} // namespace qwen_keys

// llama.cpp reads a picture's size even where it may be any; its converter writes this one.
constexpr uint32_t gguf_image_size = 560;

// Of how many layers one sees all, the last of each. An error where they are not so regular.
Result<uint32_t> full_layer_period(const ModelFile& file, const EncoderConfig& config) {
  const std::vector<bool>& windows = config.patch_windows;
  const auto first = static_cast<uint32_t>(std::ranges::find(windows, false) - windows.begin());
  const uint32_t period = first + 1;
  for (uint32_t layer = 0; layer < windows.size(); ++layer) {
    if (windows[layer] == ((layer + 1) % period != 0)) continue;
    return file.fields().error(
        "vision_config.fullatt_block_indexes",
        fmt::format(
            "expected the last of each {} layers, as GGUF's models have it; found another at layer {}",
            period, layer));
  }
  return period;
}

class QwenPictures : public PictureTower {
public:
  explicit QwenPictures(QwenVision vision)
      : PictureTower(vision.encoder, vision.gguf), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    Graph& graph = builder.graph();
    builder.prefix(vision_.prefix + "patch_embed.", "v.");
    const TensorId pixels = graph.input("pixel_values", RowKind::tokens, config().shape().input_values());
    const WeightView matrix = patch_matrix(builder);
    std::optional<WeightView> bias;
    if (style().patch_bias) bias = builder.tensor(patch_name, ".bias", config().hidden, 0, "embedding");
    TensorId x =
        builder.project(pixels, builder.node_name(patch_name), matrix, bias ? &*bias : nullptr, "embedding");
    builder.prefix(vision_.prefix, "v.");
    if (style().patch_norm) x = norm(builder, x, *style().patch_norm);
    if (has_positions()) x = with_positions(builder, x);
    AttentionStyle attention;
    attention.head_norms = style().head_norms;
    attention.query_norm.hugging_face = "attn.q_norm";
    attention.key_norm.hugging_face = "attn.k_norm";
    x = builder.run_layers(x, layer_names(), attention);
    builder.finish(x);
    TensorId rows = style().gated_merger ? merge_gated(builder, x) : merge_normed(builder, x);
    for (size_t i = 0; i < vision_.deep_layers.size(); ++i) rows = with_deep_rows(builder, rows, i);
    builder.readable().add(PictureTokens::features, rows);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const PatchGroups& groups = *config().patch_groups;
    std::vector<Hyperparameter> all = {{"merged", fmt::format("{0} x {0} patches", groups.merge)}};
    if (style().windows)
      all.push_back({"window", fmt::format("{0} x {0} patches", groups.merge * groups.window)});
    if (has_positions()) all.push_back({"positions", fmt::format("{0} x {0}", vision_.side)});
    if (!vision_.deep_layers.empty())
      all.push_back({"rows", fmt::format("of {} layers too", vision_.deep_layers.size())});
    return all;
  }

  std::string_view gguf_projector() const override { return style().gguf_projector; }
  uint32_t columns() const override { return vision_.size; }
  Result<nlohmann::json> tower_metadata(const ModelFile& file,
                                        const ImagePreparation& preparation) const override {
    const uint32_t copies = config().input_shape[1];
    if (copies != 2 || config().rotary.base != 10000) {
      return file.fields().error(
          "vision_config.temporal_patch_size",
          fmt::format("expected 2, and a rope_theta of 10000, as GGUF's models have; found {} and {}", copies,
                      config().rotary.base));
    }
    const PatchCutting& cutting = *preparation.patches;
    const PatchGroups& groups = *config().patch_groups;
    nlohmann::json keys = {{tower_keys::image_size, gguf_image_size},
                           {tower_keys::patch_size, cutting.patch},
                           {tower_keys::merge, groups.merge},
                           {qwen_keys::min_pixels, cutting.min_pixels},
                           {qwen_keys::max_pixels, cutting.max_pixels}};
    if (style().windows) {
      PUMICE_TRY(keys[qwen_keys::period], full_layer_period(file, config()));
      keys[qwen_keys::window] = groups.window * groups.merge * cutting.patch;
    }
    if (has_positions()) keys[tower_keys::image_size] = vision_.side * cutting.patch;
    if (style().gated_merger) {
      if (config().activation != Activation::silu) {
        return file.fields().error(
            "vision_config.hidden_act",
            fmt::format("expected silu, as GGUF's models have it; found {}", to_string(config().activation)));
      }
      if (!style().thrice_merged) keys[tower_keys::feed_forward] = vision_.merger_feed_forward;
    } else if (has_positions()) {
      std::vector<bool> deep(config().layers);
      for (const uint32_t layer : vision_.deep_layers) deep[layer] = true;
      keys[qwen_keys::deep] = deep;
    }
    return keys;
  }

private:
  static constexpr TensorName patch_name = {"proj", "patch_embd"};

  const QwenVisionStyle& style() const { return vision_.style; }
  bool has_positions() const { return !style().positions.hugging_face.empty(); }

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = vision_.prefix + "blocks.{}.";
    names.gguf = "v.blk.{}.";
    names.norm_first = true;
    names.norm = style().norm;
    names.attention.fused = {"attn.qkv", style().fused_gguf ? "attn_qkv" : ""};
    if (!style().fused_gguf) {
      names.attention.query.gguf = "attn_q";
      names.attention.key.gguf = "attn_k";
      names.attention.value.gguf = "attn_v";
    }
    names.attention.output = {"attn.proj", "attn_out"};
    names.attention.input_bias = vision_.input_bias;
    names.attention.output_bias = names.feed_forward_bias = style().biases;
    names.attention_norm = {"norm1", "ln1"};
    names.gate = style().gate;
    names.up = style().up;
    names.down = style().down;
    names.feed_forward_norm = {"norm2", "ln2"};
    return names;
  }

  // Of a patch's columns: for each colour, its pixels in each copy. GGUF has a tensor for each copy.
  WeightView patch_matrix(EncoderBuilder& builder) const {
    const std::vector<uint32_t>& patch = config().input_shape; // [colours, copies, height, width]
    const uint64_t rows = uint64_t{config().hidden} * patch[0], pixels = uint64_t{patch[2]} * patch[3];
    const std::vector<uint64_t> of_copy = {config().hidden, patch[0], patch[2], patch[3]};
    const auto suffix = [](uint32_t copy) { return copy == 0 ? ".weight" : fmt::format(".weight.{}", copy); };
    if (!builder.gguf()) {
      std::vector<uint64_t> shape = {config().hidden};
      shape.insert(shape.end(), patch.begin(), patch.end());
      const WeightView matrix =
          builder.flat_tensor({patch_name.hugging_face, ""}, ".weight", shape, "embedding");
      for (uint32_t copy = 0; copy < patch[1]; ++copy) {
        const WeightView part = {matrix.tensor, rows, pixels, false, copy, 1, patch[1], pixels};
        builder.add_gguf_tensor(patch_name, suffix(copy), of_copy, {part});
      }
      return matrix;
    }
    std::vector<WeightView> copies;
    for (uint32_t copy = 0; copy < patch[1]; ++copy)
      copies.push_back(builder.flat_tensor(patch_name, suffix(copy), of_copy, "embedding"));
    return builder.derived_tensor("patch_embd.all", {config().hidden, patch[1] * patch[0] * pixels},
                                  [copies, pixels](std::span<float> all) {
                                    for (size_t copy = 0; copy < copies.size(); ++copy) {
                                      const std::vector<float> own = decode_vector(copies[copy]);
                                      for (size_t i = 0; i < all.size() / copies.size(); ++i)
                                        all[(i / pixels * copies.size() + copy) * pixels + i % pixels] =
                                            own[i];
                                    }
                                  });
  }

  TensorId with_positions(EncoderBuilder& builder, TensorId x) const {
    const WeightView table = builder.tensor(
        style().positions, ".weight", uint64_t{vision_.side} * vision_.side, config().hidden, "embedding");
    return grid_positions(builder.graph(), "with_positions", x, builder.weight(table, "embedding"),
                          vision_.side, style().rule);
  }

  TensorId norm(EncoderBuilder& builder, TensorId x, const TensorName& name) const {
    return style().norm == NormKind::rms ? builder.rms_norm(x, name) : builder.layer_norm(x, name);
  }

  TensorId join(EncoderBuilder& builder, TensorId x) const {
    return join_patches(builder.graph(), builder.prefix() + "joined_patches", x, vision_.joined());
  }

  TensorId merge_normed(EncoderBuilder& builder, TensorId x) const {
    builder.prefix(vision_.prefix + "merger.", "");
    const TensorId y = join(builder, norm(builder, x, style().merger_norm));
    return merge(builder, y, style().first, style().second);
  }

  // A convolution of each square, a norm, and a gated feed-forward.
  TensorId merge_gated(EncoderBuilder& builder, TensorId x) const {
    builder.prefix(vision_.prefix, "");
    x = join(builder, norm(builder, x, style().merger_norm));
    constexpr TensorName name = {"downsample", "mm.patch_merger"};
    const uint32_t merge = config().patch_groups->merge, size = vision_.size;
    const WeightView convolution =
        builder.flat_tensor(name, ".weight", {size, config().hidden, merge, merge}, "head");
    const WeightView bias = builder.tensor(name, ".bias", size, 0, "head");
    x = builder.project(x, builder.node_name(name), columns_by_patch(builder, convolution, vision_.joined()),
                        &bias, "head");
    builder.prefix(vision_.prefix + "merger.", "mm.");
    x = builder.project(x, {"proj", "model.fc"}, size, false, "head");
    x = builder.ModelBuilder::layer_norm(x, {"post_projection_norm", "post_norm"}, merger_eps);
    x = activate(builder.graph(), builder.prefix() + "merger_activated", x, Activation::gelu);
    const TensorId gated =
        builder.project(x, {"gate_proj", "gate"}, vision_.merger_feed_forward, false, "head");
    const TensorId up = builder.project(x, {"up_proj", "up"}, vision_.merger_feed_forward, false, "head");
    x = gate(builder.graph(), builder.prefix() + "merger_gated", gated, up, config().activation);
    return builder.project(x, {"down_proj", "down"}, size, false, "head");
  }

  TensorId merge(EncoderBuilder& builder, TensorId x, const TensorName& first,
                 const TensorName& second) const {
    x = builder.project(x, first, vision_.joined() * config().hidden, true, "head");
    x = activate(builder.graph(), builder.prefix() + "merger_activated", x, Activation::gelu);
    return builder.project(x, second, vision_.size, true, "head");
  }

  // Behind the rows' columns those of the layer that is the i-th of several.
  TensorId with_deep_rows(EncoderBuilder& builder, TensorId rows, size_t i) const {
    const uint32_t layer = vision_.deep_layers[i];
    const std::span<const TensorId> states = builder.hidden_states(); // the first one is what layer 0 reads
    builder.prefix(fmt::format("{}deepstack_merger_list.{}.", vision_.prefix, i),
                   fmt::format("v.deepstack.{}.", layer));
    TensorId x = norm(builder, join(builder, states[layer + 1]), {"norm", "norm"});
    x = merge(builder, x, {"linear_fc1", "fc1"}, {"linear_fc2", "fc2"});
    const uint32_t before = builder.graph().tensor(rows).columns;
    return join_heads(builder.graph(), builder.prefix() + "rows", rows, {0, 0, before}, x,
                      {0, 0, vision_.size}, 1);
  }

  QwenVision vision_;
};

// The settings of the vision tower, with its class's defaults.
nlohmann::json vision_fields(const ModelFile& file, const QwenVisionStyle& style) {
  nlohmann::json all = with_defaults(file, "vision_config", style.defaults);
  const auto columns = all.find("embed_dim"), ratio = all.find("mlp_ratio");
  if (columns != all.end() && ratio != all.end() && columns->is_number() && ratio->is_number())
    all["intermediate_size"] = columns->get<double>() * ratio->get<double>();
  return all;
}

// Of a folder, whose settings `all` are, or an mmproj file.
Settings vision_settings(const ModelFile& file, const nlohmann::json& all) {
  return file.is_mmproj() ? Settings(file)
                          : Settings(file, Fields(all, file.path() + "/config.json", "vision_config."));
}

Result<uint32_t> read_merge(const Settings& settings) {
  return settings.u32_or({"spatial_merge_size", tower_keys::merge}, 1, most_merge, 2);
}

// Squares on each side of a window.
Result<uint32_t> read_window(const Settings& settings, uint32_t patch, uint32_t merge) {
  const SettingName window = {"window_size", qwen_keys::window};
  PUMICE_TRY(const uint32_t pixels, settings.u32_or(window, 1, 1 << 20, 112));
  const uint32_t squares = pixels / merge / patch;
  const uint64_t side = uint64_t{squares} * merge;
  if (side > 0 && side * side >> STEP_WINDOW_BITS == 0) return squares;
  return settings.error(window,
                        fmt::format("expected {} pixels or more, and windows of fewer than {} patches; "
                                    "found {}",
                                    merge * patch, 1 << STEP_WINDOW_BITS, pixels));
}

// The shape of a patch, and how the tower groups patches.
Status read_patches(const Settings& settings, const QwenVisionStyle& style, EncoderConfig& config) {
  PUMICE_TRY(const uint32_t patch, settings.u32_or({"patch_size", tower_keys::patch_size}, 1, most_edge, 14));
  PUMICE_TRY(const uint32_t copies, settings.u32_or({"temporal_patch_size", ""}, 1, 16, 2));
  for (const char* name : {"in_channels", "in_chans"}) {
    PUMICE_TRY(const uint32_t channels, settings.u32_or({name, ""}, 0, 16, 3));
    if (channels != 3) return settings.error({name, ""}, fmt::format("expected 3; found {}", channels));
  }
  config.kind = InputKind::patches;
  config.input_shape = {3, copies, patch, patch};
  PatchGroups groups;
  PUMICE_TRY(groups.merge, read_merge(settings));
  groups.window = 0;
  if (style.windows) {
    PUMICE_TRY(groups.window, read_window(settings, patch, groups.merge));
  }
  config.patch_groups = groups;
  return {};
}

Status read_vision_rotary(const Settings& settings, EncoderConfig& config) {
  if (config.head_dim % 4 != 0) {
    return settings.error(
        {"num_heads", tower_keys::heads},
        fmt::format("expected heads of a multiple of 4 dimensions; found {}", config.head_dim));
  }
  config.rotary.pairs = RotaryPairs::half_split;
  config.rotary.dim = config.head_dim;
  config.rotary.places = PlaceKind::patches;
  config.rotary.base = 10000;
  if (settings.gguf()) return {};
  PUMICE_TRY(const Fields rotary, settings.fields().object_or_empty("rope_parameters"));
  PUMICE_TRY(config.rotary.base, rotary.f32_or("rope_theta", 1.0f, 1e12f, 10000.0f));
  return {};
}

Status read_windowed_layers(const Settings& settings, EncoderConfig& config) {
  config.patch_windows.assign(config.layers, true);
  if (settings.gguf()) {
    PUMICE_TRY(const uint32_t period, settings.u32({"", qwen_keys::period}, 0, limits::layers));
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      config.patch_windows[layer] = period > 0 && (layer + 1) % period != 0;
    return {};
  }
  PUMICE_TRY(const std::vector<uint32_t> whole,
             settings.fields().u32_array("fullatt_block_indexes", 0, limits::layers));
  for (const uint32_t layer : whole)
    if (layer < config.layers) config.patch_windows[layer] = false;
  return {};
}

// Of a GGUF file, by a tensor: the first ones of Qwen 2 VL say 0 columns, and have the names exchanged.
void read_feed_forward(const ModelFile& file, QwenVisionStyle& style, EncoderConfig& config) {
  const TensorView* down = file.find("v.blk.0.ffn_down.weight");
  if (!down || down->shape.size() != 2) return;
  const bool exchanged = down->shape[1] == config.hidden && down->shape[0] != config.hidden;
  if (exchanged) std::swap(style.up.gguf, style.down.gguf);
  config.feed_forward =
      static_cast<uint32_t>(std::min<uint64_t>(down->shape[exchanged ? 0 : 1], limits::columns));
}

Result<EncoderConfig> read_vision_config(const Settings& settings, QwenVisionStyle& style) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.vocabulary = names.context = {};
  names.norm_eps = {style.gated_merger ? "rms_norm_eps" : "", tower_keys::norm_eps};
  names.layers = {"depth", tower_keys::layers};
  names.heads = {"num_heads", tower_keys::heads};
  names.hidden = {style.hidden, tower_keys::hidden};
  if (style.gated_merger && !style.thrice_merged)
    names.feed_forward.hugging_face = style.out; // the other setting is the merger's
  const bool by_tensor = !style.gate || style.gated_merger;
  names.feed_forward.gguf = by_tensor ? std::string_view() : tower_keys::feed_forward;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_CHECK(read_patches(settings, style, config));
  PUMICE_CHECK(read_vision_rotary(settings, config));
  if (settings.gguf()) {
    PUMICE_TRY(config.activation, read_tower_activation(settings));
    if (by_tensor) read_feed_forward(settings.file(), style, config);
  }
  if (style.windows) PUMICE_CHECK(read_windowed_layers(settings, config));
  return config;
}

// The layers whose results the decoder's first layers read.
Result<std::vector<uint32_t>> read_deep_layers(const Settings& settings) {
  if (!settings.gguf())
    return settings.fields().u32_array_or_empty("deepstack_visual_indexes", 0, limits::layers);
  std::vector<uint32_t> layers;
  const GgufArray* flags = settings.file().array(settings.name({"", qwen_keys::deep}));
  const std::vector<int64_t> all = flags ? flags->integers() : std::vector<int64_t>();
  for (size_t layer = 0; layer < all.size(); ++layer)
    if (all[layer] != 0) layers.push_back(static_cast<uint32_t>(layer));
  return layers;
}

// The table of positions is a square, which GGUF's files give in pixels.
Result<uint32_t> read_side(const Settings& settings, const QwenVisionStyle& style, uint32_t patch) {
  if (settings.gguf()) {
    PUMICE_TRY(const uint32_t pixels, settings.u32({"", tower_keys::image_size}, patch, most_side * patch));
    return pixels / patch;
  }
  if (style.image_side) {
    PUMICE_TRY(const uint32_t pixels, settings.u32({"image_size", ""}, patch, most_side * patch));
    return pixels / patch;
  }
  const SettingName name = {"num_position_embeddings", ""};
  PUMICE_TRY(const uint32_t count, settings.u32(name, 1, most_side * most_side));
  const auto side = static_cast<uint32_t>(std::lround(std::sqrt(count)));
  if (side * side == count) return side;
  return settings.error(name, fmt::format("expected a square number; found {}", count));
}

// The most pixels that the tower has room for.
PatchCutting largest_cutting(const EncoderConfig& config) {
  const uint32_t patch = config.input_shape[2];
  PatchCutting cutting = config.shape().cutting();
  cutting.max_pixels = uint64_t{most_patches} * patch * patch;
  return cutting;
}

// How a GGUF file says that pictures are cut. `cutting` has the most pixels that the tower has room for.
Result<ImagePreparation> read_gguf_preparation(const Settings& settings, const QwenVisionStyle& style,
                                               PatchCutting cutting) {
  PUMICE_TRY(ImagePreparation preparation, read_tower_preparation(settings));
  preparation.resampling = Resampling::bicubic;
  const SettingName least = {"", qwen_keys::min_pixels}, most = {"", qwen_keys::max_pixels};
  const auto room = static_cast<uint32_t>(cutting.max_pixels);
  PUMICE_TRY(cutting.max_pixels, settings.u32_or(most, 1, UINT32_MAX, room));
  PUMICE_TRY(cutting.min_pixels, settings.u32_or(least, 1, UINT32_MAX,
                                                 style.least_squares * cutting.square() * cutting.square()));
  cutting.max_pixels = std::min<uint64_t>(cutting.max_pixels, room);
  cutting.min_pixels = std::min(cutting.min_pixels, cutting.max_pixels);
  preparation.patches = cutting;
  return preparation;
}

void set_patch_context(const ImagePreparation& preparation, EncoderConfig& config) {
  const PatchCutting& cutting = *preparation.patches;
  config.context = static_cast<uint32_t>(cutting.max_pixels / cutting.patch / cutting.patch);
}

Result<QwenVision> read_qwen_vision(const ModelFile& file, const QwenVisionStyle& style) {
  const nlohmann::json all = vision_fields(file, style);
  const Settings settings = vision_settings(file, all);
  QwenVision vision;
  vision.style = style;
  vision.gguf = settings.gguf();
  EncoderConfig& encoder = vision.encoder;
  PUMICE_TRY(encoder, read_vision_config(settings, vision.style));
  PUMICE_TRY(vision.deep_layers, read_deep_layers(settings));
  if (!style.positions.hugging_face.empty()) {
    PUMICE_TRY(vision.side, read_side(settings, style, encoder.input_shape[2]));
  }
  vision.input_bias = style.biases;
  if (style.gated_merger) {
    const bool shown = vision.gguf && file.find("v.blk.0.attn_qkv.bias");
    PUMICE_TRY(vision.input_bias, settings.boolean_or({"attention_bias", ""}, shown));
    if (style.thrice_merged) {
      vision.style.biases = vision.input_bias;
      PUMICE_TRY(const uint32_t columns, settings.u32({style.out, tower_keys::columns}, 1, limits::columns));
      vision.merger_feed_forward = encoder.input_shape[0] * columns;
    } else {
      PUMICE_TRY(vision.merger_feed_forward,
                 settings.u32({"intermediate_size", tower_keys::feed_forward}, 1, 4 * limits::columns));
    }
  }
  const auto past =
      std::ranges::find_if(vision.deep_layers, [&](uint32_t layer) { return layer >= encoder.layers; });
  if (past != vision.deep_layers.end()) {
    return settings.error({"deepstack_visual_indexes", qwen_keys::deep},
                          fmt::format("expected some of the {} layers; found {}", encoder.layers, *past));
  }
  if (vision.gguf) {
    PUMICE_TRY(encoder.preparation, read_gguf_preparation(settings, style, largest_cutting(encoder)));
    set_patch_context(*encoder.preparation, encoder);
    PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
    return vision;
  }
  PUMICE_TRY(const ImagePreparation preparation,
             read_patch_preparation(folder_of(file), largest_cutting(encoder)));
  set_patch_context(preparation, encoder);
  PUMICE_TRY(vision.size, Settings::of_text(file).u32({"hidden_size", ""}, 1, limits::columns));
  const SettingName out = {style.out, ""};
  PUMICE_TRY(const uint32_t given, settings.u32(out, 1, limits::columns));
  if (given != vision.size) {
    return settings.error(out,
                          fmt::format("expected the decoder's {} columns; found {}", vision.size, given));
  }
  vision.prefix = prefix_of(file, "patch_embed.proj.weight", {"visual.", "model.visual."});
  return vision;
}

} // namespace

Result<QwenRows> read_qwen_rows(const ModelFile& file, const QwenVisionStyle& style) {
  const nlohmann::json all = vision_fields(file, style);
  const Settings settings = vision_settings(file, all);
  QwenRows rows;
  PUMICE_TRY(rows.merge, read_merge(settings));
  PUMICE_TRY(const std::vector<uint32_t> layers, read_deep_layers(settings));
  rows.deep_layers = static_cast<uint32_t>(layers.size());
  if (!settings.gguf()) return rows;
  PUMICE_TRY(rows.columns, settings.u32({"", tower_keys::columns}, 1, limits::columns));
  return rows;
}

OpenedDefinition open_qwen_vision(const ModelFile& file, const QwenVisionStyle& style) {
  // An mmproj file of GLM-OCR has GLM-4.1V's projector, and no positions.
  const bool ocr = file.is_mmproj() && &style == &glm4v_vision() && !file.find("v.position_embd.weight");
  PUMICE_TRY(QwenVision vision, read_qwen_vision(file, ocr ? glm_ocr_vision() : style));
  return std::unique_ptr<ModelDefinition>(std::make_unique<QwenPictures>(std::move(vision)));
}

} // namespace pumice
