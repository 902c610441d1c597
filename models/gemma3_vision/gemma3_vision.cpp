#include "models/gemma3_vision/gemma3_vision.h"

#include <cmath>

#include <fmt/format.h>

#include "kernel/image/image.h"
#include "models/clip/clip_vision.h"
#include "models/encoder/model.h"
#include "models/gemma3/gemma3.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

// Gemma 3 (Gemma Team 2025) with the encoder of its pictures: SigLIP's, whose patches are averaged in
// windows, normed and projected to the decoder's embeddings.
struct Gemma3Vision {
  ClipVisionConfig siglip;
  PatchWindows windows;
  std::string prefix, projector; // of tensor names
  uint32_t size = 0;             // columns of the decoder's embeddings
};

class Gemma3Pictures : public EncoderModel {
public:
  explicit Gemma3Pictures(Gemma3Vision vision)
      : EncoderModel(vision.siglip.encoder, false), vision_(std::move(vision)) {}

protected:
  void build(EncoderBuilder& builder) const override {
    TensorId x = build_clip_vision(builder, vision_.siglip, vision_.prefix);
    builder.prefix(vision_.prefix, "");
    x = builder.layer_norm(x, {"post_layernorm", ""});
    builder.finish(x);
    builder.prefix(vision_.projector, "");
    x = patch_windows(builder.graph(), "pooled_patches", x, vision_.windows);
    x = builder.rms_norm(x, {"mm_soft_emb_norm", ""}, 1);
    const TensorName name = {"mm_input_projection_weight", ""};
    const WeightView matrix = builder.transposed_tensor(name, vision_.size, config().hidden, "head", "");
    x = builder.project(x, builder.node_name(name), matrix, nullptr, "head");
    builder.readable().add(PictureTokens::features, x);
  }

private:
  Gemma3Vision vision_;
};

Result<Gemma3Vision> read_gemma3_vision(const ModelFile& file) {
  const nlohmann::json all = with_defaults(
      file, "vision_config", {{"hidden_size", 768}, {"num_hidden_layers", 12}, {"num_attention_heads", 12}});
  Gemma3Vision vision;
  PUMICE_TRY(vision.siglip, read_clip_vision_config(
                                Settings(file, Fields(all, file.path() + "/config.json", "vision_config.")),
                                {.siglip = true}));
  if (!all.contains("hidden_act")) vision.siglip.encoder.activation = Activation::gelu_tanh;
  const PatchShape& patches = vision.siglip.patches;
  PatchWindows& windows = vision.windows;
  windows.rule = PatchWindows::Rule::averaged;
  windows.height = windows.width = patches.height / patches.patch_height;
  PUMICE_TRY(const uint32_t rows, file.fields().u32_or("mm_tokens_per_image", 1, limits::tokens, 256));
  const auto side = static_cast<uint32_t>(std::lround(std::sqrt(rows)));
  windows.window = side > 0 ? windows.height / side : 0;
  if (windows.window > 0 && side * side == rows && windows.count() == rows) return vision;
  return file.fields().error("mm_tokens_per_image",
                             fmt::format("expected the square of a number of windows on each side of {} x {} "
                                         "patches; found {}",
                                         windows.height, windows.width, rows));
}

Result<PictureTokens> read_gemma3_tokens(const ModelFile& file) {
  PUMICE_TRY(const Gemma3Vision vision, read_gemma3_vision(file));
  PictureTokens tokens;
  const char* name = file.fields().has("image_token_index") ? "image_token_index" : "image_token_id";
  PUMICE_TRY(tokens.token, file.fields().u32_or(name, 0, limits::tokens, 262144));
  tokens.rows = vision.windows.count();
  tokens.see_whole = true;
  PictureMarkup& markup = tokens.markup;
  PUMICE_TRY(markup.place, picture_token(file, "boi_token", "<start_of_image>"));
  PUMICE_TRY(markup.picture, picture_token(file, "image_token", "<image_soft_token>"));
  PUMICE_TRY(const std::string end, picture_token(file, "eoi_token", "<end_of_image>"));
  markup.begin = "\n\n" + markup.place;
  markup.end = end + "\n\n";
  return tokens;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gemma3_vision(const ModelFile& file) {
  if (!file.fields().has("vision_config")) return open_gemma3(file);
  PUMICE_TRY(PictureTokens pictures, read_gemma3_tokens(file));
  return open_gemma3_that_sees(file, std::move(pictures));
}

Result<std::unique_ptr<ModelDefinition>> open_gemma3_pictures(const ModelFile& file) {
  PUMICE_TRY(Gemma3Vision vision, read_gemma3_vision(file));
  PUMICE_TRY(vision.size, file.text_fields().u32_or("hidden_size", 1, limits::columns, 2304));
  vision.prefix = prefix_of(file, "embeddings.patch_embedding.weight",
                            {"vision_tower.vision_model.", "model.vision_tower.vision_model.",
                             "vision_tower.", "model.vision_tower."});
  vision.projector =
      prefix_of(file, "mm_soft_emb_norm.weight", {"multi_modal_projector.", "model.multi_modal_projector."});
  return std::unique_ptr<ModelDefinition>(std::make_unique<Gemma3Pictures>(std::move(vision)));
}

} // namespace pumice
