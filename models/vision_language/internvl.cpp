#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/image/image.h"
#include "models/registry.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr uint32_t largest_square = 8192; // so that the number of values fits 32 bits
constexpr uint32_t usual_tiles = 12;      // at most, of one picture
constexpr float projector_eps = 1e-5f;    // of the projector's norm, which no setting changes

constexpr std::string_view least_tiles_key = "vision.preproc_min_tiles";
constexpr std::string_view most_tiles_key = "vision.preproc_max_tiles";

// InternVL 3's encoder (Zhu et al., InternVL3, 2025): a picture is cut into tiles of about its proportions. A
// ViT with scaled sublayers makes rows of each, and squares of them are joined ("pixel shuffle"), normed and
// projected to the decoder's embeddings. Any decoder reads them.
struct InternVision {
  EncoderConfig encoder;
  PatchShape patches;
  PatchWindows windows;
  std::string prefix, projector; // of tensor names
  Activation activation = Activation::gelu;
  uint32_t size = 0; // columns of the decoder's embeddings
  bool input_bias = false;
  bool final_norm = false;
  bool gguf = false; // the format of its file
};

class InternPictures : public PictureTower {
public:
  explicit InternPictures(InternVision vision)
      : PictureTower(vision.encoder, vision.gguf), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    Graph& graph = builder.graph();
    builder.prefix(vision_.prefix + "embeddings.", "v.");
    TensorId x = builder.run_layers(embed(builder), layer_names());
    builder.prefix(vision_.prefix, "v.");
    if (vision_.final_norm) x = builder.layer_norm(x, {"layernorm", "post_ln"});
    builder.finish(x);
    x = patch_windows(graph, "pixel_shuffle", x, vision_.windows);
    builder.prefix(vision_.projector, "mm.model.");
    x = builder.ModelBuilder::layer_norm(x, {"layer_norm", "mlp.0"}, projector_eps);
    x = builder.project(x, {"linear_1", "mlp.1"}, vision_.size, true, "head");
    x = activate(graph, "projector_activated", x, vision_.activation);
    x = builder.project(x, {"linear_2", "mlp.3"}, vision_.size, true, "head");
    builder.readable().add(PictureTokens::features, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"merged", fmt::format("{0} x {0} patches", vision_.windows.window)}};
  }

  std::string_view gguf_projector() const override { return "internvl"; }
  uint32_t columns() const override { return vision_.size; }
  Result<nlohmann::json> tower_metadata(const ModelFile& file,
                                        const ImagePreparation& preparation) const override {
    if (vision_.activation != Activation::gelu) {
      return file.fields().error(
          "projector_hidden_act",
          fmt::format("expected gelu, which GGUF's models have; found {}", to_string(vision_.activation)));
    }
    nlohmann::json keys = {{tower_keys::image_size, vision_.patches.height},
                           {tower_keys::patch_size, vision_.patches.patch_height},
                           {tower_keys::scale_factor, vision_.windows.window}};
    if (preparation.tiling) {
      keys[least_tiles_key] = preparation.tiling->least;
      keys[most_tiles_key] = preparation.tiling->most;
    }
    return keys;
  }

private:
  // Of the class token, then of each patch.
  TensorId embed(EncoderBuilder& builder) const {
    Graph& graph = builder.graph();
    const uint32_t hidden = config().hidden;
    const PatchShape& shape = vision_.patches;
    const TensorId pixels = graph.input("pixel_values", RowKind::outputs, config().shape().input_values());
    constexpr TensorName name = {"patch_embeddings.projection", "patch_embd"};
    const WeightView matrix = builder.flat_tensor(
        name, ".weight", {hidden, shape.channels, shape.patch_height, shape.patch_width}, "embedding");
    const WeightView bias = builder.tensor(name, ".bias", hidden, 0, "embedding");
    TensorId x = patches(graph, "patches", pixels, shape, vision_.windows.lead);
    x = builder.project(x, builder.node_name(name), matrix, &bias, "embedding");
    const WeightView lead = rows_before(builder, {"cls_token", "class_embd"}, {hidden});
    x = lead_token(graph, "with_class_token", x, builder.weight(lead, "embedding"));
    const WeightView table =
        rows_before(builder, {"position_embeddings", "position_embd.weight"}, {config().context, hidden});
    const TensorId positions =
        position_embedding(graph, "position_embedding", builder.weight(table, "embedding"));
    return builder.add(x, positions, "with_positions");
  }

  // A tensor that Hugging Face's files have as if for each picture of a batch of one.
  static WeightView rows_before(EncoderBuilder& builder, const TensorName& name,
                                std::vector<uint64_t> shape) {
    if (builder.gguf()) return builder.shaped_tensor(name, "", std::move(shape), "embedding");
    std::vector<uint64_t> stored = shape;
    stored.insert(stored.begin(), 3 - shape.size(), 1);
    const WeightView view =
        builder.shaped_tensor({name.hugging_face, ""}, "", std::move(stored), "embedding");
    builder.add_gguf_tensor(name, "", std::move(shape), {view});
    return view;
  }

  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = vision_.prefix + "encoder.layer.{}.";
    names.gguf = "v.blk.{}.";
    names.norm_first = true;
    names.attention.query = {"attention.q_proj", "attn_q"};
    names.attention.key = {"attention.k_proj", "attn_k"};
    names.attention.value = {"attention.v_proj", "attn_v"};
    names.attention.output = {"attention.projection_layer", "attn_out"};
    names.attention.input_bias = vision_.input_bias;
    names.attention_norm = {"layernorm_before", "ln1"};
    names.up = {"mlp.fc1", "ffn_up"};
    names.down = {"mlp.fc2", "ffn_down"};
    names.feed_forward_norm = {"layernorm_after", "ln2"};
    names.attention_scale = {"lambda_1", "ls1.weight"};
    names.feed_forward_scale = {"lambda_2", "ls2.weight"};
    names.scale_suffix = "";
    return names;
  }

  InternVision vision_;
};

// Of a square: one number, or the same twice.
Result<uint32_t> read_square_edge(const Settings& settings, const SettingName& name, uint32_t fallback) {
  if (settings.gguf()) return settings.u32(name, 1, largest_square);
  PUMICE_TRY(const std::vector<uint32_t> sides,
             settings.fields().u32_array_or_empty(name.hugging_face, 1, largest_square));
  if (sides.empty()) return fallback;
  if (sides.size() <= 2 && sides.front() == sides.back()) return sides.front();
  return settings.error(name, fmt::format("expected one number, or the same twice; found {} numbers from {} "
                                          "to {}",
                                          sides.size(), sides.front(), sides.back()));
}

// All but the windows, the preparation and the projector. `settings`: of the encoder.
Result<InternVision> read_intern_encoder(const Settings& settings) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.vocabulary = names.context = {};
  names.norm_eps = {"layer_norm_eps", ""};
  set_tower_names(names);
  names.default_activation = Activation::gelu;
  InternVision vision;
  EncoderConfig& config = vision.encoder;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PatchShape& shape = vision.patches;
  PUMICE_TRY(shape.height, read_square_edge(settings, {"image_size", tower_keys::image_size}, 448));
  PUMICE_TRY(shape.patch_height, read_square_edge(settings, {"patch_size", tower_keys::patch_size}, 14));
  PUMICE_TRY(shape.channels, settings.u32_or({"num_channels", ""}, 1, 16, 3));
  shape.width = shape.height;
  shape.patch_width = shape.patch_height;
  if (shape.height < shape.patch_height) {
    return settings.error(
        {"patch_size", tower_keys::patch_size},
        fmt::format("expected at most the picture's {}; found {}", shape.height, shape.patch_height));
  }
  vision.windows.lead = 1; // the class token
  vision.windows.height = vision.windows.width = shape.height / shape.patch_height;
  config.kind = InputKind::pixels;
  config.context = shape.count() + vision.windows.lead;
  config.input_shape = {shape.channels, shape.height, shape.width};
  return vision;
}

Status check_window(const Settings& settings, const SettingName& name, const PatchWindows& windows) {
  if (windows.window >= 1 && windows.height % windows.window == 0) return {};
  return settings.error(name, fmt::format("expected squares whose edge divides the {} patches on each side "
                                          "of a picture; found squares of {}",
                                          windows.height, windows.window));
}

// Norms over whole projections, as the largest encoders have (InternViT-6B), are not supported.
Error no_head_norms(const Settings& settings, const SettingName& name) {
  Error error = settings.error(name, "norms of queries and keys are not supported (InternViT-6B)");
  error.code = Code::unsupported;
  return error;
}

Result<InternVision> read_gguf_internvl(const ModelFile& mmproj) {
  const Settings settings(mmproj);
  PUMICE_TRY(InternVision vision, read_intern_encoder(settings));
  vision.gguf = true;
  PUMICE_TRY(vision.encoder.activation, read_exact_tower_activation(settings));
  if (mmproj.find("v.blk.0.attn_q_norm.weight")) return no_head_norms(settings, {"", "vision.block_count"});
  vision.input_bias = mmproj.find("v.blk.0.attn_q.bias");
  vision.final_norm = mmproj.find("v.post_ln.weight");
  const SettingName factor = {"", tower_keys::scale_factor};
  PUMICE_TRY(vision.windows.window, settings.u32_or(factor, 1, vision.windows.height, 2));
  PUMICE_CHECK(check_window(settings, factor, vision.windows));
  PUMICE_TRY(ImagePreparation preparation, read_tower_preparation(settings));
  preparation.resampling = Resampling::bicubic;
  preparation.height = preparation.width = vision.patches.height;
  Tiling tiling;
  tiling.edge = vision.patches.height;
  PUMICE_TRY(tiling.least, settings.u32_or({"", least_tiles_key}, 1, Tiling::most_tiles, 1));
  PUMICE_TRY(tiling.most,
             settings.u32_or({"", most_tiles_key}, tiling.least, Tiling::most_tiles, usual_tiles));
  preparation.tiling = tiling;
  vision.encoder.preparation = preparation;
  PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
  return vision;
}

// How many patches on each side become one row.
Status read_intern_window(const ModelFile& file, PatchWindows& windows) {
  const Settings settings(file);
  const SettingName name = {"downsample_ratio", ""};
  PUMICE_TRY(const float ratio, settings.f32_or(name, 1.0f / 256, 1.0f, 0.5f));
  windows.window = static_cast<uint32_t>(std::lround(1 / ratio));
  if (std::abs(static_cast<float>(windows.window) * ratio - 1) > 1e-3f)
    return settings.error(name, fmt::format("expected 1 divided by a whole number; found {}", ratio));
  return check_window(settings, name, windows);
}

Result<InternVision> read_internvl(const ModelFile& file) {
  const nlohmann::json all = with_defaults(file, "vision_config",
                                           {{"hidden_size", 1024},
                                            {"intermediate_size", 4096},
                                            {"num_hidden_layers", 24},
                                            {"num_attention_heads", 16},
                                            {"layer_norm_eps", 1e-6}});
  const Settings settings(file, Fields(all, file.path() + "/config.json", "vision_config."));
  PUMICE_TRY(InternVision vision, read_intern_encoder(settings));
  PUMICE_TRY(const std::string norm, settings.fields().string_or("norm_type", "layer_norm"));
  if (norm != "layer_norm")
    return settings.error({"norm_type", ""}, fmt::format("expected layer_norm; found '{}'", norm));
  PUMICE_TRY(const bool head_norms, settings.boolean_or({"use_qk_norm", ""}, false));
  if (head_norms) return no_head_norms(settings, {"use_qk_norm", ""});
  PUMICE_CHECK(settings.expect("use_absolute_position_embeddings", true, true));
  PUMICE_TRY(vision.input_bias, settings.boolean_or({"attention_bias", ""}, false));
  PUMICE_TRY(const bool mean, settings.boolean_or({"use_mean_pooling", ""}, true));
  vision.final_norm = !mean;
  const Fields own = file.fields();
  if (own.has("vision_feature_layer")) {
    const nlohmann::json& layer = *own.find("vision_feature_layer");
    if (!layer.is_number_integer() || layer.get<int64_t>() != -1)
      return own.error("vision_feature_layer", fmt::format("expected -1; found {}", layer.dump()));
  }
  PUMICE_TRY(const std::string rows, own.string_or("vision_feature_select_strategy", "default"));
  if (rows != "default")
    return own.error("vision_feature_select_strategy", fmt::format("expected default; found '{}'", rows));
  PUMICE_CHECK(read_intern_window(file, vision.windows));
  PUMICE_TRY(vision.activation, Settings(file).activation_or({"projector_hidden_act", ""}, Activation::gelu));
  PUMICE_TRY(vision.size, Settings::of_text(file).u32({"hidden_size", ""}, 1, limits::columns));
  vision.prefix = prefix_of(file, "embeddings.cls_token", {"vision_tower.", "model.vision_tower."});
  vision.projector =
      prefix_of(file, "linear_1.weight", {"multi_modal_projector.", "model.multi_modal_projector."});
  return vision;
}

PictureTokens shown_between(const std::string& begin, const std::string& picture, const std::string& end) {
  PictureTokens tokens;
  tokens.markup.place = tokens.markup.picture = picture;
  tokens.markup.opening = begin;
  tokens.markup.end = end;
  return tokens;
}

Result<PictureTokens> read_intern_tokens(const ModelFile& file) {
  PUMICE_TRY(const InternVision vision, read_internvl(file));
  PUMICE_TRY(const std::string begin, picture_token(file, "start_image_token", "<img>"));
  PUMICE_TRY(const std::string picture, picture_token(file, "context_image_token", "<IMG_CONTEXT>"));
  PUMICE_TRY(const std::string end, picture_token(file, "end_image_token", "</img>"));
  PictureTokens tokens = shown_between(begin, picture, end);
  PUMICE_TRY(tokens.token, file.fields().u32_or("image_token_id", 0, limits::tokens, 151667));
  tokens.rows = vision.windows.count();
  return tokens;
}

// Of a text model in GGUF, which names tokens by their spelling alone.
Result<PictureTokens> read_gguf_intern_tokens(const ModelFile& file) {
  PUMICE_TRY(const InternVision vision, read_gguf_internvl(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, file.architecture(), vision.size, "clip.vision.projection_dim"));
  PictureTokens tokens = shown_between("<img>", "<IMG_CONTEXT>", "</img>");
  PUMICE_TRY(tokens.token, vocabulary_token(file, tokens.markup.picture));
  tokens.rows = vision.windows.count();
  return tokens;
}

OpenedDefinition open_internvl(const ModelFile& file) {
  std::optional<PictureTokens> pictures;
  if (file.mmproj()) {
    PUMICE_TRY(pictures, read_gguf_intern_tokens(file));
  } else if (file.fields().has("vision_config")) {
    PUMICE_TRY(pictures, read_intern_tokens(file));
  }
  return open_text_decoder(Settings::of_text(file), std::move(pictures));
}

OpenedDefinition open_internvl_pictures(const ModelFile& file) {
  PUMICE_TRY(InternVision vision, file.is_mmproj() ? read_gguf_internvl(file) : read_internvl(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<InternPictures>(std::move(vision)));
}

} // namespace

Architectures internvl_models() {
  return {{"internvl", {"internvl"}, {}, open_internvl, open_internvl_pictures, {"internvl"}}};
}

} // namespace pumice
