#include "models/vision_language/pixtral.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/image/image.h"
#include "model/gguf_model.h"
#include "model/vocabulary.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// A step of the tower has room for a picture of so many patches. Larger ones are made smaller.
constexpr uint32_t most_pixtral_patches = 16384;
constexpr uint32_t most_pixtral_edge = 16384; // of a picture, in pixels
constexpr uint32_t most_pixtral_merge = 16;
constexpr float layer_eps = 1e-5f; // of the encoder's norms, which no setting changes
constexpr float rotary_base = 10000;
constexpr const char* line_end = "[IMG_BREAK]";

// Pixtral's encoder (Agrawal et al., Pixtral 12B, 2024): patches of pictures in their own proportions, which
// all see each other, placed by rotary positions down and across. Mistral 3 and LightOnOCR join squares of
// them.
struct PixtralVision {
  EncoderConfig encoder;
  std::string prefix, projector; // of tensor names
  std::string_view gguf_projector = "pixtral";
  Activation activation = Activation::gelu;
  float norm_eps = layer_eps; // of the projector's norm
  uint32_t size = 0;          // columns of the decoder's embeddings
  bool merges = true;         // the projector has a norm, and a matrix that joins patches
  bool bias = false;          // of the projector's two layers
  bool gguf = false;          // the format of its file

  uint32_t joined() const { return encoder.patch_groups->merge * encoder.patch_groups->merge; }
};

class PixtralPictures : public PictureTower {
public:
  explicit PixtralPictures(PixtralVision vision)
      : PictureTower(vision.encoder, vision.gguf), vision_(std::move(vision)) {}

  // With the row of embeddings that llama.cpp puts between a picture's lines.
  Result<GgufModel> gguf(const ModelFile& file) const override {
    PUMICE_TRY(GgufModel model, PictureTower::gguf(file));
    if (vision_.gguf_projector != "pixtral") return model;
    PUMICE_TRY(const std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
    const std::vector<uint32_t> ids = tokenizer->encode(line_end, false);
    const TensorView* table = file.find("model.embed_tokens.weight");
    if (ids.size() != 1 || !table || table->shape.size() != 2 || ids[0] >= table->shape[0]) {
      return Error{Code::unsupported,
                   fmt::format("{}: expected a token '{}' with a row of model.embed_tokens.weight, which "
                               "ends lines of pictures; found {} tokens of that spelling",
                               file.path(), line_end, ids.size())};
    }
    GgufTensor row;
    row.name = "v.token_embd.img_break";
    row.shape = {table->shape[1]};
    row.parts = {WeightView::whole(*table).slice(ids[0], 1)};
    model.tensors.push_back(std::move(row));
    return model;
  }

protected:
  void build(EncoderBuilder& builder) const override {
    builder.prefix(vision_.prefix, "v.");
    const TensorId pixels =
        builder.graph().input("pixel_values", RowKind::tokens, config().shape().input_values());
    constexpr TensorName name = {"patch_conv", "patch_embd"};
    const std::vector<uint32_t>& patch = config().input_shape; // [colours, copies, height, width]
    const WeightView matrix =
        builder.flat_tensor(name, ".weight", {config().hidden, patch[0], patch[2], patch[3]}, "embedding");
    TensorId x = builder.project(pixels, builder.node_name(name), matrix, nullptr, "embedding");
    x = builder.rms_norm(x, {"ln_pre", "pre_ln"});
    x = builder.run_layers(x, layer_names());
    builder.finish(x);
    builder.prefix(vision_.projector, "mm.");
    if (vision_.merges) x = merge(builder, x);
    x = builder.project(x, {"linear_1", "1"}, vision_.size, vision_.bias, "head");
    x = activate(builder.graph(), "projector_activated", x, vision_.activation);
    x = builder.project(x, {"linear_2", "2"}, vision_.size, vision_.bias, "head");
    builder.readable().add(PictureTokens::features, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"merged", fmt::format("{0} x {0} patches", config().patch_groups->merge)}};
  }

  std::string_view gguf_projector() const override { return vision_.gguf_projector; }
  uint32_t columns() const override { return vision_.size; }
  Result<nlohmann::json> tower_metadata(const ModelFile& file,
                                        const ImagePreparation& preparation) const override {
    // llama.cpp's norm before the projector has the layers' epsilon; LightOnOCR's is a tenth of that.
    if (vision_.activation != Activation::gelu || std::abs(vision_.norm_eps - layer_eps) > layer_eps ||
        config().rotary.base != rotary_base) {
      return file.fields().error(
          "projector_hidden_act",
          fmt::format(
              "expected gelu, an rms_norm_eps of about {:g} and a rope_theta of {:g}, as GGUF's models "
              "have; found {}, {:g} and {:g}",
              layer_eps, rotary_base, to_string(vision_.activation), vision_.norm_eps, config().rotary.base));
    }
    const PatchCutting& cutting = *preparation.patches;
    return nlohmann::json{{tower_keys::image_size, cutting.longest_edge},
                          {tower_keys::patch_size, cutting.patch},
                          {tower_keys::merge, cutting.merge}};
  }

private:
  LayerNames layer_names() const {
    LayerNames names;
    names.hugging_face = vision_.prefix + "transformer.layers.{}.";
    names.gguf = "v.blk.{}.";
    names.norm_first = true;
    names.norm = NormKind::rms;
    names.attention.query = {"attention.q_proj", "attn_q"};
    names.attention.key = {"attention.k_proj", "attn_k"};
    names.attention.value = {"attention.v_proj", "attn_v"};
    names.attention.output = {"attention.o_proj", "attn_out"};
    names.attention.input_bias = names.attention.output_bias = false;
    names.attention.neighbouring_in_gguf = true;
    names.attention_norm = {"attention_norm", "ln1"};
    names.gate = TensorName{"feed_forward.gate_proj", "ffn_gate"};
    names.up = {"feed_forward.up_proj", "ffn_up"};
    names.down = {"feed_forward.down_proj", "ffn_down"};
    names.feed_forward_norm = {"ffn_norm", "ln2"};
    names.feed_forward_bias = false;
    return names;
  }

  TensorId merge(EncoderBuilder& builder, TensorId x) const {
    const uint64_t hidden = config().hidden, joined = vision_.joined();
    x = builder.ModelBuilder::rms_norm(x, {"norm", "input_norm"}, vision_.norm_eps);
    x = join_patches(builder.graph(), "joined_patches", x, vision_.joined());
    constexpr TensorName name = {"patch_merger.merging_layer", "patch_merger"};
    const WeightView file_order = builder.tensor(name, ".weight", hidden, joined * hidden, "head");
    const WeightView matrix = columns_by_patch(builder, file_order, joined);
    return builder.project(x, builder.node_name(name), matrix, nullptr, "head");
  }

  PixtralVision vision_;
};

// "vision_config" with its class's defaults.
nlohmann::json pixtral_fields(const ModelFile& file) {
  return with_defaults(file, "vision_config",
                       {{"hidden_size", 1024},
                        {"intermediate_size", 4096},
                        {"num_hidden_layers", 24},
                        {"num_attention_heads", 16},
                        {"hidden_act", "gelu"}});
}

bool is_lighton_ocr(const ModelFile& file) {
  return file.architecture() == "lighton_ocr";
}

// LLaVA's folders have no squares of patches.
bool joins_patches(const ModelFile& file) {
  return file.architecture() == "mistral3" || is_lighton_ocr(file);
}

// Patches on each side of a square.
Result<uint32_t> read_pixtral_merge(const ModelFile& file) {
  const Settings settings(file);
  if (settings.gguf()) return settings.u32_or({"", tower_keys::merge}, 1, most_pixtral_merge, 1);
  if (!joins_patches(file)) return 1u;
  return settings.u32_or({"spatial_merge_size", ""}, 1, most_pixtral_merge, 2);
}

Status read_pixtral_rotary(const Settings& settings, EncoderConfig& config) {
  RotaryConfig& rotary = config.rotary;
  if (config.head_dim % 4 != 0) {
    return settings.error(
        {"num_attention_heads", tower_keys::heads},
        fmt::format("expected heads of a multiple of 4 dimensions; found {}", config.head_dim));
  }
  rotary.base = rotary_base;
  if (!settings.gguf()) {
    PUMICE_TRY(rotary.base, settings.f32_or({"rope_theta", ""}, 1.0f, 1e12f, rotary_base));
    PUMICE_TRY(const Fields own, settings.fields().object_or_empty("rope_parameters"));
    PUMICE_TRY(rotary.base, own.f32_or("rope_theta", 1.0f, 1e12f, rotary.base));
  }
  rotary.pairs = settings.gguf() ? RotaryPairs::neighbouring : RotaryPairs::half_split;
  rotary.dim = config.head_dim;
  rotary.places = PlaceKind::patches;
  // Places down have every second of a text's frequencies, those across the others.
  rotary.factors.assign(rotary.dim / 2, 1);
  const auto step = static_cast<float>(std::pow(double{rotary.base}, 2.0 / rotary.dim));
  std::fill(rotary.factors.begin() + rotary.dim / 4, rotary.factors.end(), step);
  return {};
}

// All but the preparation and the context. `settings`: of the encoder.
Result<EncoderConfig> read_pixtral_encoder(const Settings& settings, uint32_t merge) {
  StackConfigNames names;
  names.set_heads_share_columns();
  names.vocabulary = names.context = {};
  names.norm_eps = {};
  names.default_norm_eps = layer_eps;
  set_tower_names(names);
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  if (settings.gguf()) {
    PUMICE_TRY(config.activation, read_exact_tower_activation(settings));
  }
  PUMICE_TRY(const uint32_t patch, settings.u32_or({"patch_size", tower_keys::patch_size}, 1,
                                                   most_pixtral_edge / most_pixtral_merge, 16));
  PUMICE_TRY(const uint32_t channels, settings.u32_or({"num_channels", ""}, 0, 16, 3));
  if (channels != 3)
    return settings.error({"num_channels", ""}, fmt::format("expected 3; found {}", channels));
  config.kind = InputKind::patches;
  config.input_shape = {3, 1, patch, patch};
  config.patch_groups = PatchGroups{merge, 1};
  PUMICE_CHECK(read_pixtral_rotary(settings, config));
  return config;
}

// How a picture is cut whose edges have at most so many pixels.
PatchCutting pixtral_cutting(const EncoderConfig& config, uint32_t longest_edge) {
  const uint32_t patch = config.input_shape[2];
  PatchCutting cutting{patch, 1, config.patch_groups->merge};
  cutting.max_pixels = uint64_t{most_pixtral_patches} * patch * patch;
  cutting.limit_edges(longest_edge);
  return cutting;
}

void set_pixtral_context(EncoderConfig& config) {
  const PatchCutting& cutting = *config.preparation->patches;
  config.context = static_cast<uint32_t>(cutting.max_pixels / cutting.patch / cutting.patch);
}

Result<PixtralVision> read_gguf_pixtral(const ModelFile& mmproj) {
  const Settings settings(mmproj);
  PixtralVision vision;
  vision.gguf = true;
  PUMICE_TRY(const uint32_t merge, read_pixtral_merge(mmproj));
  PUMICE_TRY(vision.encoder, read_pixtral_encoder(settings, merge));
  vision.norm_eps = vision.encoder.norm_eps;
  PUMICE_TRY(ImagePreparation preparation, read_tower_preparation(settings));
  preparation.resampling = Resampling::bicubic;
  PUMICE_TRY(const uint32_t longest, settings.u32({"", tower_keys::image_size}, 1, most_pixtral_edge));
  preparation.patches = pixtral_cutting(vision.encoder, longest);
  vision.encoder.preparation = preparation;
  set_pixtral_context(vision.encoder);
  PUMICE_TRY(vision.size, settings.u32({"", tower_keys::columns}, 1, limits::columns));
  vision.merges = mmproj.find("mm.patch_merger.weight") || merge > 1;
  vision.bias = mmproj.find("mm.1.bias");
  return vision;
}

PictureTokens shown_in_lines(const std::string& picture, const std::string& line, const std::string& end) {
  PictureTokens tokens;
  tokens.placed = false;
  tokens.markup.place = tokens.markup.picture = picture;
  tokens.markup.line_end = line;
  tokens.markup.end = end;
  return tokens;
}

// Of a text model in GGUF, which names tokens by their spelling alone.
Result<PictureTokens> read_gguf_pixtral_tokens(const ModelFile& file, PictureTokens tokens) {
  PUMICE_TRY(const PixtralVision vision, read_gguf_pixtral(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, file.architecture(), vision.size, "clip.vision.projection_dim"));
  tokens.merge = vision.encoder.patch_groups->merge;
  PUMICE_TRY(tokens.token, vocabulary_token(file, tokens.markup.picture));
  return tokens;
}

// What of the encoder's layers the projector reads has to be the last one's rows.
Status check_feature_layer(const ModelFile& file) {
  const nlohmann::json* layer = file.fields().find("vision_feature_layer");
  if (layer ? layer->is_number_integer() && layer->get<int64_t>() == -1 : joins_patches(file)) return {};
  return file.fields().error("vision_feature_layer",
                             fmt::format("expected -1; found {}", layer ? layer->dump() : "none"));
}

OpenedDefinition open_mistral3(const ModelFile& file) {
  if (file.mmproj()) { // Mistral Small 3.1 and Pixtral 12B are "llama" there
    PUMICE_TRY(PictureTokens pictures,
               read_gguf_pixtral_tokens(file, shown_in_lines("[IMG]", line_end, "[IMG_END]")));
    return open_text_decoder(Settings(file), std::move(pictures));
  }
  std::optional<PictureTokens> pictures;
  if (file.fields().has("vision_config")) {
    PUMICE_TRY(pictures, read_pixtral_tokens(file));
  }
  const Settings text = Settings::of_text(file);
  const std::string type = text.architecture();
  const bool mistral = type == "mistral" || type == "mistral3";
  return mistral ? open_decoder("mistral3", text, std::move(pictures))
                 : open_text_decoder(text, std::move(pictures));
}

// LightOnOCR (Taghadouini et al. 2025): Qwen 3 with this encoder, which reads pages of text.
OpenedDefinition open_lighton_ocr(const ModelFile& file) {
  PictureTokens pictures = shown_in_lines("<|image_pad|>", "", "");
  if (file.mmproj()) {
    PUMICE_TRY(pictures, read_gguf_pixtral_tokens(file, std::move(pictures)));
  } else {
    PUMICE_TRY(pictures.markup.picture, picture_token(file, "image_token", pictures.markup.picture));
    pictures.markup.place = pictures.markup.picture;
    PUMICE_TRY(pictures.merge, read_pixtral_merge(file));
    PUMICE_TRY(pictures.token, file.fields().u32_or("image_token_id", 0, limits::tokens, 151655));
  }
  return open_text_decoder(Settings::of_text(file), std::move(pictures));
}

} // namespace

bool sees_with_pixtral(const ModelFile& file) {
  const Result<Fields> vision = file.fields().object_or_empty("vision_config");
  const nlohmann::json* type = vision.ok() ? vision->find("model_type") : nullptr;
  return type && type->is_string() && type->get<std::string>() == "pixtral";
}

Result<PictureTokens> read_pixtral_tokens(const ModelFile& file) {
  PUMICE_TRY(const std::string picture, picture_token(file, "image_token", "[IMG]"));
  PUMICE_TRY(const std::string line, picture_token(file, "image_break_token", line_end));
  PUMICE_TRY(const std::string end, picture_token(file, "image_end_token", "[IMG_END]"));
  PictureTokens tokens = shown_in_lines(picture, line, end);
  PUMICE_TRY(tokens.merge, read_pixtral_merge(file));
  const char* name = file.fields().has("image_token_index") ? "image_token_index" : "image_token_id";
  PUMICE_TRY(tokens.token, file.fields().u32_or(name, 0, limits::tokens, 10));
  return tokens;
}

OpenedDefinition open_pixtral_pictures(const ModelFile& file) {
  if (file.is_mmproj()) {
    PUMICE_TRY(PixtralVision vision, read_gguf_pixtral(file));
    return std::unique_ptr<ModelDefinition>(std::make_unique<PixtralPictures>(std::move(vision)));
  }
  PUMICE_CHECK(check_feature_layer(file));
  const nlohmann::json all = pixtral_fields(file);
  const Settings settings(file, Fields(all, file.path() + "/config.json", "vision_config."));
  PixtralVision vision;
  PUMICE_TRY(const uint32_t merge, read_pixtral_merge(file));
  PUMICE_TRY(vision.encoder, read_pixtral_encoder(settings, merge));
  PUMICE_TRY(const uint32_t longest, settings.u32_or({"image_size", ""}, 1, most_pixtral_edge, 1024));
  PUMICE_TRY(vision.encoder.preparation,
             read_patch_preparation(folder_of(file), pixtral_cutting(vision.encoder, longest)));
  set_pixtral_context(vision.encoder);
  vision.merges = joins_patches(file);
  if (is_lighton_ocr(file)) vision.gguf_projector = "lightonocr";
  const Settings own(file), text = Settings::of_text(file);
  PUMICE_TRY(vision.bias, own.boolean_or({"multimodal_projector_bias", ""}, !vision.merges));
  PUMICE_TRY(vision.activation, own.activation_or({"projector_hidden_act", ""}, Activation::gelu));
  PUMICE_TRY(vision.norm_eps, text.f32_or({"rms_norm_eps", ""}, 0.0f, 1.0f, layer_eps));
  PUMICE_TRY(vision.size, text.u32({"hidden_size", ""}, 1, limits::columns));
  vision.prefix =
      prefix_of(file, "patch_conv.weight", {"vision_tower.", "model.vision_tower.", "model.vision_encoder."});
  vision.projector =
      prefix_of(file, "linear_1.weight",
                {"multi_modal_projector.", "model.multi_modal_projector.", "model.vision_projection."});
  return std::unique_ptr<ModelDefinition>(std::make_unique<PixtralPictures>(std::move(vision)));
}

Architectures pixtral_models() {
  return {{"mistral3_vision", {"mistral3"}, {}, open_mistral3, open_pixtral_pictures, {"pixtral"}},
          {"lighton_ocr", {"lighton_ocr"}, {}, open_lighton_ocr, open_pixtral_pictures, {"lightonocr"}}};
}

} // namespace pumice
