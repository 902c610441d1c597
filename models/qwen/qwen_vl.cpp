#include <algorithm>
#include <array>

#include "models/qwen/qwen_vision.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// The tokens of a picture in a prompt.
struct PictureWords {
  const char *begin = "<|vision_start|>", *picture = "<|image_pad|>", *end = "<|vision_end|>";
};
constexpr PictureWords glm_words = {"<|begin_of_image|>", "<|image|>", "<|end_of_image|>"};

// A model that also sees, of Qwen's or of their form.
struct QwenVl {
  const QwenVisionStyle& (*vision)();
  std::string_view decoder; // its entry in the table
  uint32_t token = 151655;  // that stands for pictures, by the class
  PictureWords words = {};
};

// The decoders of GGUF's text models with which a projector goes.
struct GgufDecoder {
  std::string_view architecture, decoder;
};
constexpr std::array qwen2_gguf = {GgufDecoder{"qwen2vl", "qwen2"}};
constexpr std::array qwen3_gguf = {GgufDecoder{"qwen3vl", "qwen3"}, GgufDecoder{"qwen3vlmoe", "qwen3_moe"},
                                   GgufDecoder{"qwen35", "qwen3_next"},
                                   GgufDecoder{"qwen35moe", "qwen3_next"}};
constexpr std::array glm4_gguf = {GgufDecoder{"glm4", "glm4"}};

PictureTokens tokens_of(const QwenRows& rows) {
  PictureTokens tokens;
  tokens.merge = rows.merge;
  tokens.deep_layers = rows.deep_layers;
  return tokens;
}

void set_place(PictureMarkup& markup) {
  markup.place = markup.begin + markup.picture + markup.end;
}

Result<PictureTokens> read_tokens(const ModelFile& file, const QwenVl& model) {
  PUMICE_TRY(const QwenRows rows, read_qwen_rows(file, model.vision()));
  PictureTokens tokens = tokens_of(rows);
  PUMICE_TRY(tokens.token, file.fields().u32_or("image_token_id", 0, limits::tokens, model.token));
  PictureMarkup& markup = tokens.markup;
  PUMICE_TRY(markup.picture, picture_token(file, "image_token", model.words.picture));
  PUMICE_TRY(markup.begin, picture_token(file, "vision_bos_token", model.words.begin));
  PUMICE_TRY(markup.end, picture_token(file, "vision_eos_token", model.words.end));
  set_place(markup);
  return tokens;
}

// A folder; without vision_config it is the text model alone.
OpenedDefinition open_folder(const ModelFile& file, const QwenVl& model) {
  std::optional<PictureTokens> pictures;
  if (file.fields().has("vision_config")) {
    PUMICE_TRY(pictures, read_tokens(file, model));
  }
  return open_decoder(model.decoder, Settings::of_text(file), std::move(pictures));
}

// A GGUF text model and its mmproj file.
OpenedDefinition open_pair(const ModelFile& file, const QwenVl& model,
                           std::span<const GgufDecoder> decoders) {
  PUMICE_TRY(const QwenRows rows, read_qwen_rows(*file.mmproj(), model.vision()));
  const auto found = std::ranges::find(decoders, file.architecture(), &GgufDecoder::architecture);
  const GgufDecoder& text = found == decoders.end() ? decoders.front() : *found;
  PUMICE_CHECK(check_pair(file, text.architecture, rows.columns, "clip.vision.projection_dim"));
  PictureTokens tokens = tokens_of(rows);
  tokens.markup = {"", model.words.begin, model.words.end, model.words.picture, "", "", ""};
  set_place(tokens.markup);
  PUMICE_TRY(tokens.token, vocabulary_token(file, tokens.markup.picture));
  return open_decoder(text.decoder, Settings(file), std::move(tokens));
}

// `projector`: of mmproj files that this entry reads; empty: another entry does.
Architecture entry(std::string_view name, const QwenVl& model, std::string_view projector,
                   std::span<const GgufDecoder> decoders) {
  Architecture made{name, {name}, {}, [=](const ModelFile& file) {
                      return file.mmproj() ? open_pair(file, model, decoders) : open_folder(file, model);
                    }};
  made.open_pictures = [=](const ModelFile& file) { return open_qwen_vision(file, model.vision()); };
  if (!projector.empty()) made.gguf_projectors = {projector};
  return made;
}

} // namespace

Architectures qwen_vl_models() {
  return {
      entry("qwen2_vl", {qwen2_vision, "qwen2"}, "qwen2vl_merger", qwen2_gguf),
      entry("qwen2_5_vl", {qwen2_5_vision, "qwen2"}, "qwen2.5vl_merger", qwen2_gguf),
      entry("qwen3_vl", {qwen3_vision, "qwen3"}, "qwen3vl_merger", qwen3_gguf),
      entry("qwen3_vl_moe", {qwen3_vision, "qwen3_moe"}, "", {}),
      entry("qwen3_5", {qwen3_5_vision, "qwen3_next", 248056}, "", {}),
      entry("qwen3_5_moe", {qwen3_5_vision, "qwen3_next", 248056}, "", {}),
      entry("glm4v", {glm4v_vision, "glm4v_text", 151343, glm_words}, "glm4v", glm4_gguf),
      entry("glm_ocr", {glm_ocr_vision, "glm_ocr_text", 59280, glm_words}, "", {}),
  };
}

} // namespace pumice
