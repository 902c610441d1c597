#include <cmath>

#include <fmt/format.h>

#include "models/registry.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/picture_tower.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// Gemma 3 (Gemma Team 2025) with the encoder of its pictures: SigLIP's, whose patches are averaged in
// windows, normed and projected to the decoder's embeddings.
TensorId connect_gemma3(EncoderBuilder& builder, TensorId x, const SiglipWindows& vision) {
  x = patch_windows(builder.graph(), "pooled_patches", x, vision.windows);
  x = builder.rms_norm(x, {"mm_soft_emb_norm", "soft_emb_norm"}, 1);
  const TensorName name = {"mm_input_projection_weight", "input_projection.weight"};
  const WeightView matrix =
      builder.transposed_in_both(name, vision.size, vision.siglip.encoder.hidden, "head");
  return builder.project(x, builder.node_name(name), matrix, nullptr, "head");
}

// GGUF has the size of a window in place of the number of rows.
Result<SiglipWindows> read_gguf_gemma3_windows(SiglipWindows vision, const ModelFile& file) {
  PatchWindows& windows = vision.windows;
  const Settings settings(file);
  const SettingName factor = {"", tower_keys::scale_factor};
  PUMICE_TRY(windows.window, settings.u32_or(factor, 1, windows.height, 4));
  if (windows.height % windows.window != 0) {
    return settings.error(factor, fmt::format("expected a divisor of the {} patches on each side of a "
                                              "picture; found {}",
                                              windows.height, windows.window));
  }
  ImagePreparation& preparation = *vision.siglip.encoder.preparation;
  preparation.height = vision.siglip.patches.height;
  preparation.width = vision.siglip.patches.width;
  return vision;
}

Result<SiglipWindows> read_gemma3_vision(const ModelFile& file) {
  PUMICE_TRY(SiglipWindows vision, read_siglip_windows(file, {{"hidden_size", 768},
                                                              {"num_hidden_layers", 12},
                                                              {"num_attention_heads", 12},
                                                              {"hidden_act", "gelu_pytorch_tanh"}}));
  PatchWindows& windows = vision.windows;
  windows.rule = PatchWindows::Rule::averaged;
  vision.projector = "gemma3";
  if (vision.gguf) return read_gguf_gemma3_windows(std::move(vision), file);
  PUMICE_TRY(const uint32_t rows, file.fields().u32_or("mm_tokens_per_image", 1, limits::tokens, 256));
  const auto side = static_cast<uint32_t>(std::lround(std::sqrt(rows)));
  windows.window = side > 0 ? windows.height / side : 0;
  if (windows.window > 0 && side * side == rows && windows.count() == rows) return vision;
  return file.fields().error("mm_tokens_per_image",
                             fmt::format("expected the square of a number of windows on each side of {} x {} "
                                         "patches; found {}",
                                         windows.height, windows.width, rows));
}

PictureTokens gemma3_shown_as(const std::string& begin, const std::string& picture, const std::string& end) {
  PictureTokens tokens;
  tokens.bidirectional = true;
  tokens.markup.place = begin;
  tokens.markup.begin = "\n\n" + begin;
  tokens.markup.picture = picture;
  tokens.markup.end = end + "\n\n";
  return tokens;
}

Result<PictureTokens> read_gemma3_tokens(const ModelFile& file) {
  PUMICE_TRY(const SiglipWindows vision, read_gemma3_vision(file));
  PUMICE_TRY(const std::string begin, picture_token(file, "boi_token", "<start_of_image>"));
  PUMICE_TRY(const std::string picture, picture_token(file, "image_token", "<image_soft_token>"));
  PUMICE_TRY(const std::string end, picture_token(file, "eoi_token", "<end_of_image>"));
  PictureTokens tokens = gemma3_shown_as(begin, picture, end);
  const char* name = file.fields().has("image_token_index") ? "image_token_index" : "image_token_id";
  PUMICE_TRY(tokens.token, file.fields().u32_or(name, 0, limits::tokens, 262144));
  tokens.rows = vision.windows.count();
  return tokens;
}

// The same of a text model in GGUF, which names tokens by their spelling alone.
Result<PictureTokens> read_gguf_gemma3_tokens(const ModelFile& file) {
  PUMICE_TRY(const SiglipWindows vision, read_gemma3_vision(*file.mmproj()));
  PUMICE_CHECK(check_pair(file, "gemma3", vision.size, "clip.vision.projection_dim"));
  PUMICE_TRY(const VocabularyToken picture, picture_vocabulary_token(file, "<image_soft_token>"));
  PictureTokens tokens = gemma3_shown_as("<start_of_image>", picture.spelling, "<end_of_image>");
  tokens.token = picture.id;
  tokens.rows = vision.windows.count();
  return tokens;
}

OpenedDefinition open_gemma3_vision(const ModelFile& file) {
  std::optional<PictureTokens> pictures;
  if (file.mmproj()) {
    PUMICE_TRY(pictures, read_gguf_gemma3_tokens(file));
  } else if (file.fields().has("vision_config")) {
    PUMICE_TRY(pictures, read_gemma3_tokens(file));
  }
  if (file.mmproj() || !file.fields().has("text_config"))
    return open_decoder("gemma3", Settings::of_text(file), std::move(pictures));
  const nlohmann::json text = with_defaults(file, "text_config",
                                            {{"vocab_size", 262208},
                                             {"hidden_size", 2304},
                                             {"intermediate_size", 9216},
                                             {"num_hidden_layers", 26},
                                             {"num_attention_heads", 8},
                                             {"num_key_value_heads", 4},
                                             {"head_dim", 256},
                                             {"max_position_embeddings", 131072}});
  const Fields fields(text, file.path() + "/config.json", "text_config.");
  return open_decoder("gemma3", Settings(file, fields), std::move(pictures));
}

OpenedDefinition open_gemma3_pictures(const ModelFile& file) {
  PUMICE_TRY(SiglipWindows vision, read_gemma3_vision(file));
  if (vision.gguf) return make_siglip_windows(std::move(vision), connect_gemma3);
  PUMICE_TRY(vision.size, file.text_fields().u32_or("hidden_size", 1, limits::columns, 2304));
  vision.prefix = prefix_of(file, "embeddings.patch_embedding.weight",
                            {"vision_tower.vision_model.", "model.vision_tower.vision_model.",
                             "vision_tower.", "model.vision_tower."});
  vision.connector =
      prefix_of(file, "mm_soft_emb_norm.weight", {"multi_modal_projector.", "model.multi_modal_projector."});
  return make_siglip_windows(std::move(vision), connect_gemma3);
}

} // namespace

Architectures gemma3_vision_models() {
  return {{"gemma3_vision", {"gemma3"}, {}, open_gemma3_vision, open_gemma3_pictures, {"gemma3"}}};
}

} // namespace pumice
