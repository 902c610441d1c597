#include "models/llava/llava.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "models/clip/clip_vision.h"
#include "models/decoder/model.h"
#include "models/encoder/model.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// LLaVA (Liu et al., Visual Instruction Tuning, 2023): a row of a text's embeddings for each patch of a
// picture, made by CLIP's encoder and two layers.
class LlavaText : public DecoderModel {
public:
  LlavaText(DecoderConfig config, const Biases& biases, DecoderNames names)
      : DecoderModel(std::move(config), false), biases_(biases), names_(names) {}

  Result<GgufModel> gguf(const ModelFile& file) const override { return ModelDefinition::gguf(file); }

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases_); },
                   names_);
  }
  std::string_view gguf_architecture() const override { return "llama"; }

private:
  Biases biases_;
  DecoderNames names_;
};

struct LlavaVision {
  ClipVisionConfig clip;
  std::string prefix;           // of the encoder's tensor names
  std::string projector_prefix; // of the two layers'
  Activation activation = Activation::gelu;
  uint32_t size = 0; // columns of the decoder's embeddings
  bool bias = true;
};

class LlavaPictures : public EncoderModel {
public:
  explicit LlavaPictures(LlavaVision vision)
      : EncoderModel(vision.clip.encoder, false), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    const TensorId x = build_clip_vision(builder, vision_.clip, vision_.prefix);
    builder.finish(x);
    builder.prefix(vision_.projector_prefix, "");
    TensorId y = builder.project(x, {"linear_1", ""}, vision_.size, vision_.bias, "head");
    y = activate(builder.graph(), "projector_activated", y, vision_.activation);
    y = builder.project(y, {"linear_2", ""}, vision_.size, vision_.bias, "head");
    builder.readable().add(PictureTokens::features, y);
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
    return own.error("model_type",
                     fmt::format("expected clip_vision_model or siglip_vision_model; found '{}'", type));
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
  PUMICE_TRY(const ClipVisionConfig clip, read_vision(file));
  PictureTokens tokens;
  const char* name = file.fields().has("image_token_index") ? "image_token_index" : "image_token_id";
  PUMICE_TRY(tokens.token, file.fields().u32_or(name, 0, vocabulary - 1, 32000));
  PUMICE_TRY(tokens.skipped, skipped_rows(file, clip));
  tokens.rows = clip.encoder.context - tokens.skipped;
  return tokens;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_llava(const ModelFile& file) {
  const nlohmann::json text = text_settings(file);
  const Fields fields(text, file.path() + "/config.json", "text_config.");
  PUMICE_TRY(const std::string type, fields.string("model_type"));
  if (type != "llama" && type != "mistral") {
    return fields.error("model_type", fmt::format("expected llama or mistral; found '{}'", type));
  }
  const Settings settings(file, fields);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_TRY(const uint32_t window, settings.u32_or({"sliding_window", ""}, 1, limits::context, 0));
  config.windows.assign(config.layers, window);
  PUMICE_TRY(const Biases biases, read_biases(settings));
  PUMICE_TRY(config.pictures, read_picture_tokens(file, config.vocabulary));
  DecoderNames names;
  if (file.find("model.language_model.embed_tokens.weight")) { // as transformers 4.52 and later may write it
    names.embedding = {"model.language_model.embed_tokens", ""};
    names.layers = "model.language_model.layers.{}.";
    names.norm = {"model.language_model.norm", ""};
  } else {
    config.root = "language_model.";
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<LlavaText>(std::move(config), biases, names));
}

Result<std::unique_ptr<ModelDefinition>> open_llava_pictures(const ModelFile& file) {
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

} // namespace pumice
