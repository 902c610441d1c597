#include "models/smolvlm/smolvlm.h"

#include <fmt/format.h>

#include "models/decoder/config.h"
#include "models/llama/llama.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// Idefics3 (Laurencon et al., Building and better understanding vision-language models, 2024) and SmolVLM
// (Marafioti et al. 2025): a picture is cut into tiles. Of each, SigLIP's encoder makes rows, and windows of
// them are joined ("pixel shuffle") and projected to the decoder's embeddings. A patch's position in its
// encoder is its own place. The reference finds it by comparing fractions (Dehghani et al., Patch n' Pack,
// 2023), which for pictures of the full size comes to the same.
TensorId connect_smolvlm(EncoderBuilder& builder, TensorId x, const SiglipWindows& vision) {
  x = patch_windows(builder.graph(), "pixel_shuffle", x, vision.windows);
  return builder.project(x, {"modality_projection.proj", ""}, vision.size, false, "head");
}

Result<SiglipWindows> read_smolvlm_vision(const ModelFile& file) {
  PUMICE_TRY(SiglipWindows vision, read_siglip_windows(file, {{"hidden_size", 1152},
                                                              {"intermediate_size", 3072},
                                                              {"num_hidden_layers", 12},
                                                              {"num_attention_heads", 16},
                                                              {"patch_size", 32},
                                                              {"hidden_act", "gelu_pytorch_tanh"}}));
  PUMICE_TRY(vision.windows.window, file.fields().u32_or("scale_factor", 1, vision.windows.height, 2));
  if (vision.windows.height % vision.windows.window == 0) return vision;
  return file.fields().error("scale_factor",
                             fmt::format("expected a divisor of the {} patches on each side of a picture; "
                                         "found {}",
                                         vision.windows.height, vision.windows.window));
}

Result<PictureTokens> read_smolvlm_tokens(const ModelFile& file, uint32_t vocabulary) {
  PUMICE_TRY(const SiglipWindows vision, read_smolvlm_vision(file));
  PictureTokens tokens;
  PUMICE_TRY(tokens.token, file.fields().u32("image_token_id", 0, vocabulary - 1));
  tokens.rows = vision.windows.count();
  PictureMarkup& markup = tokens.markup;
  PUMICE_TRY(markup.picture, picture_token(file, "image_token", "<image>"));
  PUMICE_TRY(const std::string around, picture_token(file, "fake_image_token", "<fake_token_around_image>"));
  PUMICE_TRY(const std::string whole, picture_token(file, "global_image_token", "<global-img>"));
  markup.place = markup.picture;
  markup.begin = around + whole;
  markup.end = around;
  markup.tile = around + "<row_{row}_col_{column}>";
  markup.row_end = markup.tiles_end = "\n";
  return tokens;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_smolvlm(const ModelFile& file) {
  const nlohmann::json text = llama_text_settings(file);
  const Fields fields(text, file.path() + "/config.json", "text_config.");
  PUMICE_TRY(const std::string type, fields.string("model_type"));
  if (type != "llama") return fields.error("model_type", fmt::format("expected llama; found '{}'", type));
  const Settings settings(file, fields);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  config.set_neighbouring_in_gguf(false);
  config.windows.assign(config.layers, 0);
  PUMICE_TRY(config.pictures, read_smolvlm_tokens(file, config.vocabulary));
  PUMICE_TRY(const Biases biases, read_biases(settings));
  return make_llama(std::move(config), false, biases);
}

Result<std::unique_ptr<ModelDefinition>> open_smolvlm_pictures(const ModelFile& file) {
  const nlohmann::json text = llama_text_settings(file);
  PUMICE_TRY(SiglipWindows vision, read_smolvlm_vision(file));
  PUMICE_TRY(
      vision.size,
      Fields(text, file.path() + "/config.json", "text_config.").u32("hidden_size", 1, limits::columns));
  vision.prefix =
      prefix_of(file, "embeddings.patch_embedding.weight", {"model.vision_model.", "vision_model."});
  vision.connector = prefix_of(file, "modality_projection.proj.weight", {"model.connector.", "connector."});
  return make_siglip_windows(std::move(vision), connect_smolvlm);
}

} // namespace pumice
