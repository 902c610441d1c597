#include <fmt/format.h>

#include "models/decoder/decoder.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr uint32_t most_tiled_edge = 16384; // of a picture

// Idefics3 (Laurencon et al., Building and better understanding vision-language models, 2024) and SmolVLM
// (Marafioti et al. 2025): a picture is cut into tiles. Of each, SigLIP's encoder makes rows, and windows of
// them are joined ("pixel shuffle") and projected to the decoder's embeddings. A patch's position in its
// encoder is its own place. The reference finds it by comparing fractions (Dehghani et al., Patch n' Pack,
// 2023), which for pictures of the full size comes to the same.
TensorId connect_smolvlm(EncoderBuilder& builder, TensorId x, const SiglipWindows& vision) {
  x = patch_windows(builder.graph(), "pixel_shuffle", x, vision.windows);
  return builder.project(x, {"modality_projection.proj", "model.fc"}, vision.size, false, "head");
}

// Older files do not say how large a picture is made before it is cut: then it is as the processor's class
// has it.
Status read_gguf_tiling(const Settings& settings, SiglipWindows& vision) {
  ImagePreparation& preparation = *vision.siglip.encoder.preparation;
  Tiling tiling;
  tiling.edge = preparation.height = preparation.width = vision.siglip.patches.height;
  PUMICE_TRY(tiling.longest_edge,
             settings.u32_or({"", tower_keys::longest_edge}, 1, most_tiled_edge, 4 * tiling.edge));
  preparation.resampling = Resampling::lanczos;
  preparation.tiling = tiling;
  return {};
}

Result<SiglipWindows> read_smolvlm_vision(const ModelFile& file) {
  PUMICE_TRY(SiglipWindows vision, read_siglip_windows(file, {{"hidden_size", 1152},
                                                              {"intermediate_size", 3072},
                                                              {"num_hidden_layers", 12},
                                                              {"num_attention_heads", 16},
                                                              {"patch_size", 32},
                                                              {"hidden_act", "gelu_pytorch_tanh"}}));
  vision.projector = "idefics3";
  const Settings settings(file);
  const SettingName factor = {"scale_factor", tower_keys::scale_factor};
  PUMICE_TRY(vision.windows.window, settings.u32_or(factor, 1, vision.windows.height, 2));
  if (vision.gguf) PUMICE_CHECK(read_gguf_tiling(settings, vision));
  if (vision.windows.height % vision.windows.window == 0) return vision;
  return settings.error(factor, fmt::format("expected a divisor of the {} patches on each side of a picture; "
                                            "found {}",
                                            vision.windows.height, vision.windows.window));
}

PictureMarkup smolvlm_markup(const std::string& picture, const std::string& around,
                             const std::string& whole) {
  PictureMarkup markup;
  markup.place = markup.picture = picture;
  markup.begin = around + whole;
  markup.end = around;
  markup.tile = around + "<row_{row}_col_{column}>";
  markup.row_end = markup.tiles_end = "\n";
  return markup;
}

Result<PictureTokens> read_smolvlm_tokens(const ModelFile& file, uint32_t vocabulary) {
  PUMICE_TRY(const SiglipWindows vision, read_smolvlm_vision(file));
  PictureTokens tokens;
  PUMICE_TRY(tokens.token, file.fields().u32("image_token_id", 0, vocabulary - 1));
  tokens.rows = vision.windows.count();
  PUMICE_TRY(const std::string picture, picture_token(file, "image_token", "<image>"));
  PUMICE_TRY(const std::string around, picture_token(file, "fake_image_token", "<fake_token_around_image>"));
  PUMICE_TRY(const std::string whole, picture_token(file, "global_image_token", "<global-img>"));
  tokens.markup = smolvlm_markup(picture, around, whole);
  return tokens;
}

// The same of a text model in GGUF, which names tokens by their spelling alone.
OpenedDefinition open_smolvlm_pair(const ModelFile& file) {
  PUMICE_TRY(const SiglipWindows vision, read_smolvlm_vision(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, "llama", vision.size, "clip.vision.projection_dim"));
  PictureTokens tokens;
  PUMICE_TRY(tokens.token, vocabulary_token(file, "<image>"));
  tokens.rows = vision.windows.count();
  tokens.markup = smolvlm_markup("<image>", "<fake_token_around_image>", "<global-img>");
  return open_decoder("llama", Settings(file), std::move(tokens));
}

OpenedDefinition open_smolvlm(const ModelFile& file) {
  if (file.mmproj()) return open_smolvlm_pair(file);
  const nlohmann::json text = llama_text_settings(file);
  const Fields fields(text, file.path() + "/config.json", "text_config.");
  PUMICE_TRY(const std::string type, fields.string("model_type"));
  if (type != "llama") return fields.error("model_type", fmt::format("expected llama; found '{}'", type));
  const Settings settings(file, fields);
  Decoder d;
  d.gguf_name = "llama";
  PUMICE_TRY(d.config, read_decoder_config(settings));
  d.config.set_neighbouring_in_gguf(false);
  PUMICE_TRY(d.config.pictures, read_smolvlm_tokens(file, d.config.vocabulary));
  PUMICE_CHECK(d.read_shown_biases(settings));
  return make_decoder(std::move(d), settings);
}

OpenedDefinition open_smolvlm_pictures(const ModelFile& file) {
  PUMICE_TRY(SiglipWindows vision, read_smolvlm_vision(file));
  if (vision.gguf) return make_siglip_windows(std::move(vision), connect_smolvlm);
  const nlohmann::json text = llama_text_settings(file);
  PUMICE_TRY(
      vision.size,
      Fields(text, file.path() + "/config.json", "text_config.").u32("hidden_size", 1, limits::columns));
  vision.prefix =
      prefix_of(file, "embeddings.patch_embedding.weight", {"model.vision_model.", "vision_model."});
  vision.connector = prefix_of(file, "modality_projection.proj.weight", {"model.connector.", "connector."});
  return make_siglip_windows(std::move(vision), connect_smolvlm);
}

} // namespace

Architectures smolvlm_models() {
  return {{"smolvlm", {"smolvlm", "idefics3"}, {}, open_smolvlm, open_smolvlm_pictures, {"idefics3"}}};
}

} // namespace pumice
