#include "models/qwen2_5_vl/qwen2_5_vl.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/image/image.h"
#include "media/preprocess.h"
#include "model/vocabulary.h"
#include "models/encoder/model.h"
#include "models/qwen2/qwen2.h"
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

  uint32_t joined() const { return encoder.patch_groups->merge * encoder.patch_groups->merge; }
};

// Qwen 2.5-VL's encoder (Bai et al., Qwen2.5-VL Technical Report, 2025): patches of pictures in their own
// sizes, which see those of their window, in some layers all; squares of them become the rows that the
// decoder reads.
class QwenPictures : public EncoderModel {
public:
  explicit QwenPictures(QwenVision vision)
      : EncoderModel(vision.encoder, false), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    Graph& graph = builder.graph();
    builder.prefix(vision_.prefix + "patch_embed.", "");
    const TensorId pixels = graph.input("pixel_values", RowKind::tokens, config().shape().input_values());
    const TensorName name = {"proj", ""};
    std::vector<uint64_t> shape = {config().hidden};
    shape.insert(shape.end(), config().input_shape.begin(), config().input_shape.end());
    const WeightView matrix = builder.flat_tensor(name, ".weight", std::move(shape), "embedding");
    TensorId x = builder.project(pixels, builder.node_name(name), matrix, nullptr, "embedding");
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

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = vision_.prefix + "blocks.{}.";
    names.norm_first = true;
    names.norm = NormKind::rms;
    names.attention.fused = {"attn.qkv", ""};
    names.attention.output = {"attn.proj", ""};
    names.attention_norm = {"norm1", ""};
    names.gate = TensorName{"mlp.gate_proj", ""};
    names.up = {"mlp.up_proj", ""};
    names.down = {"mlp.down_proj", ""};
    names.feed_forward_norm = {"norm2", ""};
    return names;
  }

  TensorId merge(EncoderBuilder& builder, TensorId x) const {
    Graph& graph = builder.graph();
    x = builder.rms_norm(x, {"ln_q", ""});
    x = join_patches(graph, "joined_patches", x, vision_.joined());
    x = builder.project(x, {"mlp.0", ""}, vision_.joined() * config().hidden, true, "head");
    x = activate(graph, "merger_activated", x, Activation::gelu);
    return builder.project(x, {"mlp.2", ""}, vision_.size, true, "head");
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
  return settings.u32_or({"spatial_merge_size", ""}, 1, most_merge, 2);
}

// The shape of a patch, and how the tower groups patches.
Status read_patches(const Settings& settings, EncoderConfig& config) {
  PUMICE_TRY(const uint32_t patch, settings.u32_or({"patch_size", ""}, 1, most_edge, 14));
  PUMICE_TRY(const uint32_t copies, settings.u32_or({"temporal_patch_size", ""}, 1, 16, 2));
  for (const char* name : {"in_channels", "in_chans"}) {
    PUMICE_TRY(const uint32_t channels, settings.u32_or({name, ""}, 0, 16, 3));
    if (channels != 3) return settings.error({name, ""}, fmt::format("expected 3; found {}", channels));
  }
  config.kind = InputKind::patches;
  config.input_shape = {3, copies, patch, patch};
  PatchGroups groups;
  PUMICE_TRY(groups.merge, read_merge(settings));
  const SettingName window = {"window_size", ""};
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
        {"num_heads", ""},
        fmt::format("expected heads of a multiple of 4 dimensions; found {}", config.head_dim));
  }
  config.rotary.pairs = RotaryPairs::half_split;
  config.rotary.dim = config.head_dim;
  config.rotary.places = PlaceKind::patches;
  PUMICE_TRY(const Fields rotary, settings.fields().object_or_empty("rope_parameters"));
  PUMICE_TRY(config.rotary.base, rotary.f32_or("rope_theta", 1.0f, 1e12f, 10000.0f));
  return {};
}

Result<EncoderConfig> read_vision_config(const Settings& settings) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.vocabulary = names.context = names.norm_eps = {};
  names.layers = {"depth", ""};
  names.heads = {"num_heads", ""};
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_CHECK(read_patches(settings, config));
  PUMICE_CHECK(read_vision_rotary(settings, config));
  PUMICE_TRY(const std::vector<uint32_t> whole,
             settings.fields().u32_array("fullatt_block_indexes", 0, limits::layers));
  config.patch_windows.assign(config.layers, true);
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

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen2_5_vl(const ModelFile& file) {
  if (!file.fields().has("vision_config")) return open_qwen2(file);
  PUMICE_TRY(PictureTokens pictures, read_tokens(file));
  return open_qwen2_that_sees(file, std::move(pictures));
}

Result<std::unique_ptr<ModelDefinition>> open_qwen2_5_vl_pictures(const ModelFile& file) {
  const nlohmann::json all = vision_fields(file);
  const Settings settings = vision_settings(file, all);
  QwenVision vision;
  PUMICE_TRY(vision.encoder, read_vision_config(settings));
  const uint32_t patch = vision.encoder.input_shape[2];
  PatchCutting cutting = vision.encoder.shape().cutting();
  cutting.max_pixels = uint64_t{most_patches} * patch * patch;
  PUMICE_TRY(const ImagePreparation preparation, read_patch_preparation(folder_of(file), cutting));
  vision.encoder.context = static_cast<uint32_t>(preparation.patches->max_pixels / patch / patch);
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

} // namespace pumice
