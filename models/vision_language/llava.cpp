#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/clip/clip_vision.h"
#include "models/decoder/decoder.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/pixtral.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr std::string_view feature_layer_key = "vision.feature_layer";

// LLaVA (Liu et al., Visual Instruction Tuning, 2023): a row of a text's embeddings for each patch of a
// picture, made by CLIP's encoder and two layers.
struct LlavaVision {
  ClipVisionConfig clip;
  std::string prefix;           // of the encoder's tensor names
  std::string projector_prefix; // of the two layers'
  Activation activation = Activation::gelu;
  uint32_t size = 0; // columns of the decoder's embeddings
  bool bias = true;
  bool norm_after = false; // of the encoder, which some GGUF files have
  bool gguf = false;       // the format of its file
};

class LlavaPictures : public PictureTower {
public:
  explicit LlavaPictures(LlavaVision vision)
      : PictureTower(vision.clip.encoder, vision.gguf), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = build_clip_vision(builder, vision_.clip, vision_.prefix);
    if (vision_.norm_after) x = builder.layer_norm(x, {"", "post_ln"});
    builder.finish(x);
    builder.prefix(vision_.projector_prefix, "mm.");
    TensorId y = builder.project(x, {"linear_1", "0"}, vision_.size, vision_.bias, "head");
    y = activate(builder.graph(), "projector_activated", y, vision_.activation);
    y = builder.project(y, {"linear_2", "2"}, vision_.size, vision_.bias, "head");
    builder.readable().add(PictureTokens::features, y);
  }

  std::string_view gguf_projector() const override { return "mlp"; }
  uint32_t columns() const override { return vision_.size; }
  // Without feature_layer, llama.cpp leaves out the last of the layers.
  Result<nlohmann::json> tower_metadata(const ModelFile& file, const ImagePreparation&) const override {
    if (vision_.activation != Activation::gelu) {
      return file.fields().error(
          "projector_hidden_act",
          fmt::format("expected gelu, which GGUF's models have; found {}", to_string(vision_.activation)));
    }
    const PatchShape& patches = vision_.clip.patches;
    return nlohmann::json{{tower_keys::image_size, patches.height},
                          {tower_keys::patch_size, patches.patch_height},
                          {feature_layer_key, {vision_.clip.encoder.layers}}};
  }

private:
  LlavaVision vision_;
};

nlohmann::json text_settings(const ModelFile& file) {
  nlohmann::json all = llama_text_settings(file);
  if (!all.contains("tie_word_embeddings")) all["tie_word_embeddings"] = false;
  return all;
}

// How many of the encoder's layers run for "vision_feature_layer", which counts hidden states: the
// embeddings, then each layer's.
Result<uint32_t> layers_to_run(const ModelFile& file, uint32_t layers) {
  const Fields fields = file.fields();
  const nlohmann::json* value = fields.find("vision_feature_layer");
  int64_t layer = -2;
  if (value) {
    if (!value->is_number_integer()) {
      return fields.error("vision_feature_layer",
                          fmt::format("expected one integer; found {}", value->dump()));
    }
    layer = value->get<int64_t>();
  }
  const int64_t from_front = layer < 0 ? layer + layers + 1 : layer;
  if (from_front >= 1 && from_front <= layers) return static_cast<uint32_t>(from_front);
  return fields.error("vision_feature_layer", fmt::format("expected one of the {} layers, or one counted "
                                                          "back from -1; found {}",
                                                          layers, layer));
}

// The number of rows at the beginning that the decoder does not read.
Result<uint32_t> skipped_rows(const ModelFile& file, const ClipVisionConfig& clip) {
  PUMICE_TRY(const std::string strategy,
             file.fields().string_or("vision_feature_select_strategy", "default"));
  if (strategy == "default") return clip.class_token ? 1 : 0;
  if (strategy == "full") return 0;
  return file.fields().error("vision_feature_select_strategy",
                             fmt::format("expected default or full; found '{}'", strategy));
}

Result<ClipVisionConfig> read_vision(const ModelFile& file) {
  PUMICE_TRY(const Fields own, file.fields().object_or_empty("vision_config"));
  PUMICE_TRY(const std::string type, own.string_or("model_type", "clip_vision_model"));
  if (type != "clip_vision_model" && type != "siglip_vision_model") {
    return own.error(
        "model_type",
        fmt::format("expected clip_vision_model, siglip_vision_model or pixtral; found '{}'", type));
  }
  const nlohmann::json all = with_defaults(
      file, "vision_config", {{"hidden_size", 768}, {"num_hidden_layers", 12}, {"num_attention_heads", 12}});
  const bool siglip = type == "siglip_vision_model";
  PUMICE_TRY(
      ClipVisionConfig config,
      read_clip_vision_config(Settings(file, Fields(all, file.path() + "/config.json", "vision_config.")),
                              {.siglip = siglip}));
  if (siglip && !all.contains("hidden_act")) config.encoder.activation = Activation::gelu_tanh;
  return config;
}

Result<PictureTokens> read_picture_tokens(const ModelFile& file, uint32_t vocabulary) {
  if (sees_with_pixtral(file)) return read_pixtral_tokens(file);
  PUMICE_TRY(const ClipVisionConfig clip, read_vision(file));
  PictureTokens tokens;
  const char* name = file.fields().has("image_token_index") ? "image_token_index" : "image_token_id";
  PUMICE_TRY(tokens.token, file.fields().u32_or(name, 0, vocabulary - 1, 32000));
  PUMICE_TRY(tokens.skipped, skipped_rows(file, clip));
  tokens.rows = clip.encoder.context - tokens.skipped;
  return tokens;
}

// How many of a GGUF file's layers run. Files have those that run and no others.
Result<uint32_t> gguf_layers_to_run(const Settings& settings, uint32_t layers) {
  const SettingName name = {"", feature_layer_key};
  if (!settings.has(name)) return layers;
  PUMICE_TRY(const std::vector<uint32_t> chosen, settings.fields().u32_array(settings.name(name), 1, layers));
  if (chosen.size() == 1) return chosen[0];
  return settings.error(name, fmt::format("expected one layer; found {}", chosen.size()));
}

// Pictures are cut to a square as CLIP's processor does; llama.cpp fills them up to one.
Result<ImagePreparation> read_gguf_llava_preparation(const Settings& settings, uint32_t edge) {
  for (const std::string_view tiles : {"vision.image_grid_pinpoints", "vision.mm_patch_merge_type"}) {
    if (!settings.has({"", tiles})) continue;
    Error error = settings.error({"", tiles}, "expected none, because pictures in tiles (LLaVA 1.6) are not "
                                              "supported for this projector");
    error.code = Code::unsupported;
    return error;
  }
  PUMICE_TRY(ImagePreparation preparation, read_tower_preparation(settings));
  preparation.shortest_edge = edge;
  preparation.resampling = Resampling::bicubic;
  preparation.crops = true;
  preparation.crop_height = preparation.crop_width = edge;
  return preparation;
}

// The decoder's columns are not a setting of all files: in the first ones projection_dim is CLIP's.
Result<uint32_t> gguf_llava_columns(const ModelFile& mmproj) {
  const TensorView* last = mmproj.find("mm.2.weight");
  if (last && last->shape.size() == 2 && last->shape[0] >= 1 && last->shape[0] <= limits::columns)
    return static_cast<uint32_t>(last->shape[0]);
  return mmproj.fields().u32("clip.vision.projection_dim", 1, limits::columns);
}

Result<LlavaVision> read_gguf_llava(const ModelFile& mmproj) {
  const Settings settings(mmproj);
  LlavaVision vision;
  vision.gguf = true;
  PUMICE_TRY(vision.size, gguf_llava_columns(mmproj));
  PUMICE_TRY(vision.clip, read_clip_vision_config(settings, {}));
  EncoderConfig& encoder = vision.clip.encoder;
  PUMICE_TRY(encoder.preparation, read_gguf_llava_preparation(settings, vision.clip.patches.height));
  PUMICE_TRY(encoder.layers, gguf_layers_to_run(settings, encoder.layers));
  vision.bias = mmproj.find("mm.0.bias");
  vision.norm_after = mmproj.find("v.post_ln.weight");
  return vision;
}

// A GGUF text model and its mmproj file. The class token's row is left out, as llama.cpp does.
OpenedDefinition open_llava_pair(const ModelFile& file) {
  PUMICE_TRY(const LlavaVision vision, read_gguf_llava(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, "llama", vision.size, "mm.2.weight"));
  constexpr const char* mark = "<image>";
  PUMICE_TRY(const VocabularyToken picture, picture_vocabulary_token(file, mark));
  PictureTokens tokens;
  tokens.token = picture.id;
  tokens.skipped = vision.clip.class_token ? 1 : 0;
  tokens.rows = vision.clip.encoder.context - tokens.skipped;
  if (picture.spelling != mark) {
    tokens.markup.place = mark;
    tokens.markup.picture = picture.spelling;
  }
  return open_decoder("llama", Settings(file), std::move(tokens));
}

OpenedDefinition open_llava(const ModelFile& file) {
  if (file.mmproj()) return open_llava_pair(file);
  const nlohmann::json text = text_settings(file);
  const Fields fields(text, file.path() + "/config.json", "text_config.");
  PUMICE_TRY(const std::string type, fields.string("model_type"));
  if (type != "llama" && type != "mistral") {
    return fields.error("model_type", fmt::format("expected llama or mistral; found '{}'", type));
  }
  const Settings settings(file, fields);
  Decoder d;
  d.gguf_name = "llama";
  PUMICE_TRY(d.config, read_decoder_config(settings));
  PUMICE_CHECK(d.read_window(settings, {"sliding_window", ""}, 1));
  d.config.set_neighbouring_in_gguf(false);
  PUMICE_CHECK(d.read_biases(settings));
  PUMICE_TRY(d.config.pictures, read_picture_tokens(file, d.config.vocabulary));
  if (file.find("model.language_model.embed_tokens.weight")) { // as transformers 4.52 and later may write it
    d.names.embedding.hugging_face = "model.language_model.embed_tokens";
    d.names.layers = "model.language_model.layers.{}.";
    d.names.norm.hugging_face = "model.language_model.norm";
  } else {
    d.config.root = "language_model.";
  }
  return make_decoder(std::move(d), settings);
}

OpenedDefinition open_llava_pictures(const ModelFile& file) {
  if (file.is_mmproj()) {
    PUMICE_TRY(LlavaVision vision, read_gguf_llava(file));
    return std::unique_ptr<ModelDefinition>(std::make_unique<LlavaPictures>(std::move(vision)));
  }
  if (sees_with_pixtral(file)) return open_pixtral_pictures(file);
  const nlohmann::json text = text_settings(file);
  LlavaVision vision;
  PUMICE_TRY(
      vision.size,
      Fields(text, file.path() + "/config.json", "text_config.").u32("hidden_size", 1, limits::columns));
  PUMICE_TRY(vision.clip, read_vision(file));
  PUMICE_TRY(vision.clip.encoder.layers, layers_to_run(file, vision.clip.encoder.layers));
  vision.prefix = prefix_of(file, "embeddings.patch_embedding.weight",
                            {"vision_tower.vision_model.", "vision_tower.",
                             "model.vision_tower.vision_model.", "model.vision_tower."});
  vision.projector_prefix =
      prefix_of(file, "linear_1.weight", {"multi_modal_projector.", "model.multi_modal_projector."});
  const Settings settings(file);
  PUMICE_TRY(vision.bias, settings.boolean_or({"multimodal_projector_bias", ""}, true));
  PUMICE_TRY(vision.activation, settings.activation_or({"projector_hidden_act", ""}, Activation::gelu));
  return std::unique_ptr<ModelDefinition>(std::make_unique<LlavaPictures>(std::move(vision)));
}

} // namespace

Architectures llava_models() {
  return {{"llava", {"llava"}, {}, open_llava, open_llava_pictures, {"mlp"}}};
}

} // namespace pumice
