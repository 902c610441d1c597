#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "model/vocabulary.h"
#include "models/clip/clip_vision.h"
#include "models/registry.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr uint32_t joined_patches = 4;     // patches that become one, 2 x 2 of them
constexpr uint32_t most_table_side = 1024; // of the table of positions
constexpr float last_norm_eps = 1e-6f;     // of the last norm, which no setting changes
constexpr const char* gguf_text = "qwen35";

// A tower's step has room for so many times the patches of a usual picture: thin ones, whose shorter edge is
// a whole square, have more.
constexpr uint32_t thin_room = 4;
constexpr uint32_t most_room = 16384;

// GGUF's keys that other towers do not have.
constexpr std::string_view merging_layers_key = "vision.wa_layer_indexes";
constexpr std::string_view most_slices_key = "vision.preproc_max_tiles"; // InternVL's of its tiles

// MiniCPM-V 4.6 (OpenBMB 2026): SigLIP's encoder of a picture and of slices of it, in their own proportions.
// After one of its layers four patches see each other and become one; after the last layer four of these
// become a row of the decoder's embeddings.
struct MiniCpmVision {
  ClipVisionConfig siglip;
  std::string prefix, merger;            // of tensor names
  uint32_t side = 0;                     // of the table of positions
  std::optional<uint32_t> merging_layer; // after which patches become fewer; none: at the end alone
  uint32_t size = 0;                     // columns of the decoder's embeddings
  bool gguf = false;                     // the format of its file

  const Slicing& slices() const { return *siglip.encoder.preparation->slices; }
};

class MiniCpmPictures : public PictureTower {
public:
  explicit MiniCpmPictures(MiniCpmVision vision)
      : PictureTower(vision.siglip.encoder, vision.gguf), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    LayerNames names = clip_layer_names(vision_.prefix);
    names.after = [&](uint32_t layer, TensorId x) {
      return layer == vision_.merging_layer ? merge_windows(builder, names.attention, x) : x;
    };
    TensorId x = builder.run_layers(embed(builder), names);
    builder.prefix(vision_.prefix, "v.");
    x = builder.layer_norm(x, {"post_layernorm", "post_ln"});
    builder.finish(x);
    builder.prefix(vision_.merger + "mlp.0.", "mm.");
    x = join_patches(builder.graph(), builder.prefix() + "joined_patches", x, joined_patches);
    x = builder.ModelBuilder::layer_norm(x, {"pre_norm", "input_norm"}, last_norm_eps);
    x = builder.project(x, {"linear_1", "up"}, joined_patches * config().hidden, true, "head");
    x = activate(builder.graph(), builder.prefix() + "activated", x, Activation::gelu);
    x = builder.project(x, {"linear_2", "down"}, vision_.size, true, "head");
    builder.readable().add(PictureTokens::features, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    std::vector<Hyperparameter> all = {
        {"merged", fmt::format("{0} x {0} patches", config().patch_groups->merge)},
        {"positions", fmt::format("{0} x {0}", vision_.side)}};
    if (vision_.merging_layer) all.push_back({"merging_layer", fmt::format("{}", *vision_.merging_layer)});
    return all;
  }

  std::string_view gguf_projector() const override { return "minicpmv4_6"; }
  uint32_t columns() const override { return vision_.size; }
  Result<nlohmann::json> tower_metadata(const ModelFile& file,
                                        const ImagePreparation& preparation) const override {
    if (!vision_.merging_layer)
      return file.fields().error("downsample_mode", "expected 16x, as GGUF's models have it; found '4x'");
    return nlohmann::json{{tower_keys::image_size, preparation.slices->edge},
                          {tower_keys::patch_size, preparation.patches->patch},
                          {tower_keys::scale_factor, preparation.patches->merge},
                          {most_slices_key, preparation.slices->most},
                          {merging_layers_key, {*vision_.merging_layer}}};
  }

private:
  TensorId embed(EncoderBuilder& builder) const {
    const std::vector<uint32_t>& patch = config().input_shape; // [colours, copies, height, width]
    builder.prefix(vision_.prefix + "embeddings.", "v.");
    const TensorId pixels =
        builder.graph().input("pixel_values", RowKind::tokens, config().shape().input_values());
    constexpr TensorName name = {"patch_embedding", "patch_embd"};
    const WeightView matrix =
        builder.flat_tensor(name, ".weight", {config().hidden, patch[0], patch[2], patch[3]}, "embedding");
    const WeightView bias = builder.tensor(name, ".bias", config().hidden, 0, "embedding");
    const TensorId x = builder.project(pixels, builder.node_name(name), matrix, &bias, "embedding");
    const WeightView table =
        builder.tensor({"position_embedding", "position_embd"}, ".weight",
                       uint64_t{vision_.side} * vision_.side, config().hidden, "embedding");
    return grid_positions(builder.graph(), "with_positions", x, builder.weight(table, "embedding"),
                          vision_.side, GridPositions::Rule::before);
  }

  // Four patches attend to each other, and what a feed-forward makes of them is added to their mean.
  TensorId merge_windows(EncoderBuilder& builder, const AttentionNames& names, TensorId x) const {
    using Projection = EncoderBuilder::Projection;
    Graph& graph = builder.graph();
    builder.prefix(vision_.prefix + "vit_merger.", "v.vit_merger.");
    const TensorId normed = builder.layer_norm(x, {"layer_norm1", "ln1"});
    AttentionInputs inputs;
    inputs.query = builder.project_input(normed, names, Projection::query, config().query_rows());
    inputs.key = builder.project_input(normed, names, Projection::key, config().key_rows());
    inputs.value = builder.project_input(normed, names, Projection::value, config().key_rows());
    TensorId y = builder.attend_apart(inputs, {.run = joined_patches});
    y = builder.project(y, names.output, config().hidden, true, "attention");
    x = builder.add(y, x, "attention_residual");
    const TensorId mean = join_patches(graph, builder.prefix() + "averaged_patches", x, joined_patches,
                                       JoinPatches::Rule::averaged);
    y = join_patches(graph, builder.prefix() + "joined_patches", x, joined_patches);
    y = builder.layer_norm(y, {"pre_norm", "ds_ln"});
    y = builder.project(y, {"linear_1", "ds_ffn_up"}, joined_patches * config().feed_forward, true,
                        "feed-forward");
    y = activate(graph, builder.prefix() + "activated", y, Activation::gelu_tanh);
    y = builder.project(y, {"linear_2", "ds_ffn_down"}, config().hidden, true, "feed-forward");
    return builder.add(y, mean, "residual");
  }

  MiniCpmVision vision_;
};

// Of a square of two on each side; another one is refused.
Status check_square(const Settings& settings, const char* name) {
  PUMICE_TRY(const std::vector<uint32_t> sides, settings.fields().u32_array_or_empty(name, 1));
  if (sides.empty() || sides == std::vector<uint32_t>{2, 2}) return {};
  return settings.error({name, ""},
                        fmt::format("expected 2 x 2; found {}", settings.fields().find(name)->dump()));
}

Status check_layer(const Settings& settings, const SettingName& name, uint32_t layer, uint32_t layers) {
  if (layer < layers) return {};
  return settings.error(name, fmt::format("expected one of the {} layers; found {}", layers, layer));
}

// What becomes of pictures, for a tower whose patches and their merging are known.
void set_minicpm_patches(MiniCpmVision& vision) {
  EncoderConfig& encoder = vision.siglip.encoder;
  const uint32_t patch = vision.siglip.patches.patch_height;
  encoder.kind = InputKind::patches;
  encoder.input_shape = {3, 1, patch, patch};
  encoder.patch_groups = PatchGroups{vision.merging_layer ? 4u : 2u, 0, true};
  if (!vision.merging_layer) return;
  encoder.first_joined = *vision.merging_layer + 1;
  encoder.joined = joined_patches;
}

// The patches that a picture may have.
void set_minicpm_room(MiniCpmVision& vision) {
  EncoderConfig& encoder = vision.siglip.encoder;
  PatchCutting& cutting = *encoder.preparation->patches;
  const uint64_t side = vision.slices().edge / cutting.patch + 1;
  encoder.context = static_cast<uint32_t>(std::min<uint64_t>(thin_room * side * side, most_room));
  cutting.max_pixels = uint64_t{encoder.context} * cutting.patch * cutting.patch;
}

Result<MiniCpmVision> read_gguf_minicpm(const ModelFile& mmproj) {
  const Settings settings(mmproj);
  MiniCpmVision vision;
  vision.gguf = true;
  PUMICE_TRY(vision.siglip, read_clip_vision_config(settings, {.siglip = true}));
  const SettingName factor = {"", tower_keys::scale_factor}, layers = {"", merging_layers_key};
  PUMICE_TRY(const uint32_t merged, settings.u32_or(factor, 1, 1024, 4));
  if (merged != 4) return settings.error(factor, fmt::format("expected 4; found {}", merged));
  PUMICE_TRY(const std::vector<uint32_t> merging, settings.fields().u32_array(settings.name(layers)));
  if (merging.size() != 1)
    return settings.error(layers, fmt::format("expected one layer; found {}", merging.size()));
  PUMICE_CHECK(check_layer(settings, layers, merging[0], vision.siglip.encoder.layers));
  vision.merging_layer = merging[0];
  set_minicpm_patches(vision);
  if (const TensorView* table = mmproj.find("v.position_embd.weight"); table && !table->shape.empty()) {
    const double side = std::sqrt(static_cast<double>(table->shape[0]));
    vision.side = static_cast<uint32_t>(std::min<double>(std::round(side), most_table_side));
  }
  PUMICE_TRY(ImagePreparation preparation, read_tower_preparation(settings));
  preparation.resampling = Resampling::bicubic;
  preparation.patches = PatchCutting{vision.siglip.patches.patch_height, 1, merged};
  Slicing slicing;
  slicing.edge = vision.siglip.patches.height;
  PUMICE_TRY(slicing.most, settings.u32_or({"", most_slices_key}, 1, Slicing::most_slices, slicing.most));
  preparation.slices = slicing;
  vision.siglip.encoder.preparation = preparation;
  set_minicpm_room(vision);
  PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
  return vision;
}

// The layer after which patches become fewer, if they do.
Result<std::optional<uint32_t>> read_merging_layer(const ModelFile& file, uint32_t layers) {
  const Settings settings(file);
  PUMICE_TRY(const std::string mode, file.fields().string_or("downsample_mode", "16x"));
  if (mode == "4x") return std::optional<uint32_t>();
  if (mode != "16x")
    return file.fields().error("downsample_mode", fmt::format("expected 16x or 4x; found '{}'", mode));
  constexpr SettingName name = {"insert_layer_id", ""};
  PUMICE_TRY(const uint32_t layer, settings.u32_or(name, 0, limits::layers, 6));
  PUMICE_CHECK(check_layer(settings, name, layer, layers));
  return std::optional(layer);
}

Result<MiniCpmVision> read_minicpm(const ModelFile& file) {
  if (file.is_mmproj()) return read_gguf_minicpm(file);
  const nlohmann::json all = with_defaults(file, "vision_config",
                                           {{"hidden_size", 768},
                                            {"intermediate_size", 3072},
                                            {"num_hidden_layers", 12},
                                            {"num_attention_heads", 12},
                                            {"hidden_act", "gelu_pytorch_tanh"}});
  const Settings settings(file, Fields(all, file.path() + "/config.json", "vision_config."));
  MiniCpmVision vision;
  PUMICE_TRY(vision.siglip, read_clip_vision_config(settings, {.siglip = true}));
  const PatchShape& shape = vision.siglip.patches;
  if (shape.channels != 3)
    return settings.error({"num_channels", ""}, fmt::format("expected 3; found {}", shape.channels));
  PUMICE_CHECK(check_square(settings, "window_kernel_size"));
  PUMICE_CHECK(check_square(Settings(file), "merge_kernel_size"));
  PUMICE_TRY(const uint32_t times, file.fields().u32_or("merger_times", 1));
  if (times != 1) return file.fields().error("merger_times", fmt::format("expected 1; found {}", times));
  PUMICE_TRY(vision.merging_layer, read_merging_layer(file, vision.siglip.encoder.layers));
  set_minicpm_patches(vision);
  vision.side = shape.height / shape.patch_height;
  const PatchCutting cutting{shape.patch_height, 1, vision.siglip.encoder.patch_groups->merge};
  PUMICE_TRY(vision.siglip.encoder.preparation, read_slice_preparation(folder_of(file), cutting));
  set_minicpm_room(vision);
  PUMICE_TRY(vision.size, Settings::of_text(file).u32({"hidden_size", ""}, 1, limits::columns));
  vision.prefix =
      prefix_of(file, "embeddings.patch_embedding.weight", {"model.vision_tower.", "vision_tower."});
  vision.merger = prefix_of(file, "mlp.0.linear_1.weight", {"model.merger.", "merger."});
  return vision;
}

PictureTokens minicpm_tokens(const MiniCpmVision& vision) {
  PictureTokens tokens;
  tokens.merge = vision.siglip.encoder.patch_groups->merge;
  tokens.placed = false;
  PictureMarkup& markup = tokens.markup;
  markup.place = markup.picture = "<|image_pad|>";
  markup.begin = "<image>";
  markup.end = "</image>";
  markup.tile = "<slice>";
  markup.tile_close = "</slice>";
  markup.row_break = "\n";
  markup.whole_first = true;
  if (vision.slices().numbered) markup.opening = "<image_id>{number}</image_id>";
  return tokens;
}

Result<PictureTokens> read_minicpm_tokens(const ModelFile& file) {
  PUMICE_TRY(const MiniCpmVision vision, read_minicpm(file));
  PictureTokens tokens = minicpm_tokens(vision);
  PUMICE_TRY(tokens.token, file.fields().u32("image_token_id", 0, limits::tokens));
  PictureMarkup& markup = tokens.markup;
  PUMICE_TRY(markup.picture, picture_token(file, "image_token", markup.picture));
  PUMICE_TRY(markup.begin, picture_token(file, "image_start_token", markup.begin));
  PUMICE_TRY(markup.end, picture_token(file, "image_end_token", markup.end));
  PUMICE_TRY(markup.tile, picture_token(file, "slice_start_token", markup.tile));
  PUMICE_TRY(markup.tile_close, picture_token(file, "slice_end_token", markup.tile_close));
  markup.place = markup.picture;
  if (!vision.slices().numbered) return tokens;
  PUMICE_TRY(const std::string before, picture_token(file, "image_id_start_token", "<image_id>"));
  PUMICE_TRY(const std::string after, picture_token(file, "image_id_end_token", "</image_id>"));
  markup.opening = before + "{number}" + after;
  return tokens;
}

// Of a text model in GGUF, which names tokens by their spelling alone.
Result<PictureTokens> read_gguf_minicpm_tokens(const ModelFile& file) {
  PUMICE_TRY(const MiniCpmVision vision, read_minicpm(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, gguf_text, vision.size, "clip.vision.projection_dim"));
  PictureTokens tokens = minicpm_tokens(vision);
  PUMICE_TRY(tokens.token, vocabulary_token(file, tokens.markup.picture));
  return tokens;
}

// Without a token for pictures it is the text model alone.
OpenedDefinition open_minicpm(const ModelFile& file) {
  std::optional<PictureTokens> pictures;
  if (file.mmproj()) {
    PUMICE_TRY(pictures, read_gguf_minicpm_tokens(file));
  } else if (file.fields().has("image_token_id")) {
    PUMICE_TRY(pictures, read_minicpm_tokens(file));
  }
  const Settings text = Settings::of_text(file);
  if (file.has_text_fields() && text.fields().has("model_type"))
    return open_text_decoder(text, std::move(pictures));
  return open_decoder("qwen3_next", text, std::move(pictures)); // the class's own
}

OpenedDefinition open_minicpm_pictures(const ModelFile& file) {
  PUMICE_TRY(MiniCpmVision vision, read_minicpm(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<MiniCpmPictures>(std::move(vision)));
}

} // namespace

Architectures minicpm_v_models() {
  return {{"minicpmv4_6", {"minicpmv4_6"}, {}, open_minicpm, open_minicpm_pictures, {"minicpmv4_6"}}};
}

} // namespace pumice
