#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/image/image.h"
#include "media/preprocess.h"
#include "model/vocabulary.h"
#include "models/registry.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"
#include "shaders/common/step.h"

namespace pumice {

namespace {

// A step of the tower has room for a picture of so many patches: 3.2 million pixels, 4096 rows. Larger ones
// are made smaller.
constexpr uint32_t most_patches = 16384;
constexpr uint32_t most_edge = 256; // of a patch
constexpr uint32_t most_merge = 16;

struct QwenVision {
  EncoderConfig encoder;
  std::string prefix;
  uint32_t size = 0; // columns of the decoder's embeddings
  bool gguf = false; // the format of its file

  uint32_t joined() const { return encoder.patch_groups->merge * encoder.patch_groups->merge; }
};

// GGUF's keys that other towers do not have.
namespace qwen_keys {
constexpr std::string_view merge = "vision.spatial_merge_size";
constexpr std::string_view window = "vision.window_size";  // in pixels
constexpr std::string_view period = "vision.n_wa_pattern"; // the last of so many layers sees all
constexpr std::string_view min_pixels = "vision.image_min_pixels";
constexpr std::string_view max_pixels = "vision.image_max_pixels";
} // namespace qwen_keys

// llama.cpp reads a picture's size even where it may be any; its converter writes this one.
constexpr uint32_t gguf_image_size = 560;

// The pixels of pictures that the published models read, for GGUF files that do not say.
constexpr uint64_t least_pixels = 56 * 56;

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

// Qwen 2.5-VL's encoder (Bai et al., Qwen2.5-VL Technical Report, 2025): patches of pictures in their own
// sizes, which see those of their window, in some layers all; squares of them become the rows that the
// decoder reads.
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
    TensorId x = builder.project(pixels, builder.node_name(patch_name), matrix, nullptr, "embedding");
    builder.prefix(vision_.prefix, "");
    x = builder.run_layers(x, layer_names());
    builder.finish(x);
    builder.prefix(vision_.prefix + "merger.", "");
    builder.readable().add(PictureTokens::features, merge(builder, x));
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const PatchGroups& groups = *config().patch_groups;
    return {{"merged", fmt::format("{0} x {0} patches", groups.merge)},
            {"window", fmt::format("{0} x {0} patches", groups.merge * groups.window)}};
  }

  std::string_view gguf_projector() const override { return "qwen2.5vl_merger"; }
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
    PUMICE_TRY(const uint32_t period, full_layer_period(file, config()));
    const PatchCutting& cutting = *preparation.patches;
    const PatchGroups& groups = *config().patch_groups;
    return nlohmann::json{{tower_keys::image_size, gguf_image_size},
                          {tower_keys::patch_size, cutting.patch},
                          {qwen_keys::merge, groups.merge},
                          {qwen_keys::period, period},
                          {qwen_keys::window, groups.window * groups.merge * cutting.patch},
                          {qwen_keys::min_pixels, cutting.min_pixels},
                          {qwen_keys::max_pixels, cutting.max_pixels}};
  }

private:
  static constexpr TensorName patch_name = {"proj", "patch_embd"};

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = vision_.prefix + "blocks.{}.";
    names.gguf = "v.blk.{}.";
    names.norm_first = true;
    names.norm = NormKind::rms;
    names.attention.fused = {"attn.qkv", ""};
    names.attention.query.gguf = "attn_q";
    names.attention.key.gguf = "attn_k";
    names.attention.value.gguf = "attn_v";
    names.attention.output = {"attn.proj", "attn_out"};
    names.attention_norm = {"norm1", "ln1"};
    names.gate = TensorName{"mlp.gate_proj", "ffn_gate"};
    names.up = {"mlp.up_proj", "ffn_up"};
    names.down = {"mlp.down_proj", "ffn_down"};
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

  TensorId merge(EncoderBuilder& builder, TensorId x) const {
    Graph& graph = builder.graph();
    x = builder.rms_norm(x, {"ln_q", "v.post_ln"});
    x = join_patches(graph, "joined_patches", x, vision_.joined());
    x = builder.project(x, {"mlp.0", "mm.0"}, vision_.joined() * config().hidden, true, "head");
    x = activate(graph, "merger_activated", x, Activation::gelu);
    return builder.project(x, {"mlp.2", "mm.2"}, vision_.size, true, "head");
  }

  QwenVision vision_;
};

// The settings of the vision tower, with its class's defaults.
Settings vision_settings(const ModelFile& file, const nlohmann::json& all) {
  return Settings(file, Fields(all, file.path() + "/config.json", "vision_config."));
}

nlohmann::json vision_fields(const ModelFile& file) {
  return with_defaults(file, "vision_config",
                       {{"depth", 32},
                        {"hidden_size", 3584},
                        {"intermediate_size", 3420},
                        {"num_heads", 16},
                        {"fullatt_block_indexes", {7, 15, 23, 31}}});
}

Result<uint32_t> read_merge(const Settings& settings) {
  return settings.u32_or({"spatial_merge_size", qwen_keys::merge}, 1, most_merge, 2);
}

// The shape of a patch, and how the tower groups patches.
Status read_patches(const Settings& settings, EncoderConfig& config) {
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
  const SettingName window = {"window_size", qwen_keys::window};
  PUMICE_TRY(const uint32_t pixels, settings.u32_or(window, 1, 1 << 20, 112));
  groups.window = pixels / groups.merge / patch;
  const uint64_t side = uint64_t{groups.window} * groups.merge;
  if (side == 0 || side * side >> STEP_WINDOW_BITS != 0) {
    return settings.error(window,
                          fmt::format("expected {} pixels or more, and windows of fewer than {} patches; "
                                      "found {}",
                                      groups.merge * patch, 1 << STEP_WINDOW_BITS, pixels));
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

Result<EncoderConfig> read_vision_config(const Settings& settings) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.vocabulary = names.context = {};
  names.norm_eps = {"", tower_keys::norm_eps};
  names.layers = {"depth", tower_keys::layers};
  names.heads = {"num_heads", tower_keys::heads};
  names.hidden.gguf = tower_keys::hidden;
  names.feed_forward.gguf = tower_keys::feed_forward;
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_CHECK(read_patches(settings, config));
  PUMICE_CHECK(read_vision_rotary(settings, config));
  config.patch_windows.assign(config.layers, true);
  if (settings.gguf()) {
    PUMICE_TRY(config.activation, read_tower_activation(settings));
    PUMICE_TRY(const uint32_t period, settings.u32({"", qwen_keys::period}, 0, limits::layers));
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      config.patch_windows[layer] = period > 0 && (layer + 1) % period != 0;
    return config;
  }
  PUMICE_TRY(const std::vector<uint32_t> whole,
             settings.fields().u32_array("fullatt_block_indexes", 0, limits::layers));
  for (const uint32_t layer : whole)
    if (layer < config.layers) config.patch_windows[layer] = false;
  return config;
}

Result<PictureTokens> read_tokens(const ModelFile& file) {
  const nlohmann::json all = vision_fields(file);
  PictureTokens tokens;
  PUMICE_TRY(tokens.merge, read_merge(vision_settings(file, all)));
  PUMICE_TRY(tokens.token, file.fields().u32_or("image_token_id", 0, limits::tokens, 151655));
  PictureMarkup& markup = tokens.markup;
  PUMICE_TRY(markup.picture, picture_token(file, "image_token", "<|image_pad|>"));
  PUMICE_TRY(markup.begin, picture_token(file, "vision_bos_token", "<|vision_start|>"));
  PUMICE_TRY(markup.end, picture_token(file, "vision_eos_token", "<|vision_end|>"));
  markup.place = markup.begin + markup.picture + markup.end;
  return tokens;
}

// How a GGUF file says that pictures are cut. `cutting` has the most pixels that the tower has room for.
Result<ImagePreparation> read_gguf_qwen_preparation(const Settings& settings, PatchCutting cutting) {
  PUMICE_TRY(ImagePreparation preparation, read_tower_preparation(settings));
  preparation.resampling = Resampling::bicubic;
  const SettingName least = {"", qwen_keys::min_pixels}, most = {"", qwen_keys::max_pixels};
  const auto room = static_cast<uint32_t>(cutting.max_pixels);
  PUMICE_TRY(cutting.max_pixels, settings.u32_or(most, 1, UINT32_MAX, room));
  PUMICE_TRY(cutting.min_pixels, settings.u32_or(least, 1, UINT32_MAX, least_pixels));
  cutting.max_pixels = std::min<uint64_t>(cutting.max_pixels, room);
  cutting.min_pixels = std::min(cutting.min_pixels, cutting.max_pixels);
  preparation.patches = cutting;
  return preparation;
}

// The most pixels that the tower has room for.
PatchCutting largest_cutting(const EncoderConfig& config) {
  const uint32_t patch = config.input_shape[2];
  PatchCutting cutting = config.shape().cutting();
  cutting.max_pixels = uint64_t{most_patches} * patch * patch;
  return cutting;
}

void set_patch_context(const ImagePreparation& preparation, EncoderConfig& config) {
  const PatchCutting& cutting = *preparation.patches;
  config.context = static_cast<uint32_t>(cutting.max_pixels / cutting.patch / cutting.patch);
}

Result<QwenVision> read_gguf_qwen_vision(const ModelFile& mmproj) {
  const Settings settings(mmproj);
  QwenVision vision;
  vision.gguf = true;
  PUMICE_TRY(vision.encoder, read_vision_config(settings));
  PUMICE_TRY(vision.encoder.preparation,
             read_gguf_qwen_preparation(settings, largest_cutting(vision.encoder)));
  set_patch_context(*vision.encoder.preparation, vision.encoder);
  PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
  return vision;
}

// A GGUF text model and its mmproj file.
Result<PictureTokens> read_gguf_qwen_tokens(const ModelFile& file) {
  PUMICE_TRY(const QwenVision vision, read_gguf_qwen_vision(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, "qwen2vl", vision.size, "clip.vision.projection_dim"));
  PictureTokens tokens;
  tokens.merge = vision.encoder.patch_groups->merge;
  tokens.markup = {"", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "", "", ""};
  PictureMarkup& markup = tokens.markup;
  markup.place = markup.begin + markup.picture + markup.end;
  PUMICE_TRY(tokens.token, vocabulary_token(file, markup.picture));
  return tokens;
}

OpenedDefinition open_qwen2_5_vl(const ModelFile& file) {
  std::optional<PictureTokens> pictures;
  if (file.mmproj()) {
    PUMICE_TRY(pictures, read_gguf_qwen_tokens(file));
  } else if (file.fields().has("vision_config")) {
    PUMICE_TRY(pictures, read_tokens(file));
  }
  return open_decoder("qwen2", Settings::of_text(file), std::move(pictures));
}

OpenedDefinition open_qwen2_5_vl_pictures(const ModelFile& file) {
  if (file.is_mmproj()) {
    PUMICE_TRY(QwenVision vision, read_gguf_qwen_vision(file));
    return std::unique_ptr<ModelDefinition>(std::make_unique<QwenPictures>(std::move(vision)));
  }
  const nlohmann::json all = vision_fields(file);
  const Settings settings = vision_settings(file, all);
  QwenVision vision;
  PUMICE_TRY(vision.encoder, read_vision_config(settings));
  PUMICE_TRY(const ImagePreparation preparation,
             read_patch_preparation(folder_of(file), largest_cutting(vision.encoder)));
  set_patch_context(preparation, vision.encoder);
  PUMICE_TRY(vision.size, Settings::of_text(file).u32({"hidden_size", ""}, 1, limits::columns));
  const SettingName out = {"out_hidden_size", ""};
  PUMICE_TRY(const uint32_t given, settings.u32_or(out, 1, limits::columns, 3584));
  if (given != vision.size) {
    return settings.error(out,
                          fmt::format("expected the decoder's {} columns; found {}", vision.size, given));
  }
  vision.prefix = prefix_of(file, "patch_embed.proj.weight", {"visual.", "model.visual."});
  return std::unique_ptr<ModelDefinition>(std::make_unique<QwenPictures>(std::move(vision)));
}

} // namespace

Architectures qwen2_5_vl_models() {
  return {
      {"qwen2_5_vl", {"qwen2_5_vl"}, {}, open_qwen2_5_vl, open_qwen2_5_vl_pictures, {"qwen2.5vl_merger"}}};
}

} // namespace pumice
