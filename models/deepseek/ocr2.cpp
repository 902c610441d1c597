#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/convolution/pictures.h"
#include "kernel/embedding/embedding.h"
#include "kernel/image/image.h"
#include "media/preprocess.h"
#include "models/deepseek/sam.h"
#include "models/encoder/model.h"
#include "models/registry.h"

namespace pumice {

namespace {

// DeepSeek-OCR 2 (DeepSeek-AI 2026): SAM's encoder makes pixels of a picture, and Qwen 2's layers make rows
// of as many queries behind them, each of which sees the pixels and the queries before it. Tiles and the
// whole picture have sizes and queries of their own; a row that the model has learned ends the picture.
struct OcrVision {
  SamConfig sam;
  EncoderConfig encoder; // but for what follows from the edge
  ImagePreparation preparation;
  uint32_t size = 0; // columns of the decoder's embeddings

  uint32_t side(uint32_t edge) const { return SamConfig::rows_on_side(edge / sam.patch); } // in rows
};

EncoderConfig ocr_encoder_config(const OcrVision& vision, uint32_t edge) {
  EncoderConfig config = vision.encoder;
  config.causal_from = vision.side(edge) * vision.side(edge);
  config.context = 2 * config.causal_from;
  config.input_shape = {vision.sam.colours, edge, edge};
  config.preparation = vision.preparation;
  return config;
}

class OcrPictures : public EncoderModel {
public:
  // Of the whole picture, or of its tiles.
  OcrPictures(const OcrVision& vision, bool whole)
      : EncoderModel(ocr_encoder_config(vision, whole ? vision.preparation.tiling->whole_edge
                                                      : vision.preparation.tiling->edge),
                     false),
        vision_(vision), whole_(whole) {
    if (whole) tiles_ = std::make_unique<OcrPictures>(vision, false);
  }

  const ModelDefinition* tiles() const override { return tiles_.get(); }
  std::vector<WeightSpec> weights() const override {
    std::vector<WeightSpec> all = EncoderModel::weights();
    if (!tiles_) return all;
    for (WeightSpec& each : tiles_->weights()) { // their queries
      const bool known =
          std::ranges::any_of(all, [&](const WeightSpec& other) { return other.name == each.name; });
      if (!known) all.push_back(std::move(each));
    }
    return all;
  }

protected:
  void build(EncoderBuilder& builder) const override {
    Graph& graph = builder.graph();
    const uint32_t hidden = config().hidden, edge = config().input_shape[1], rows = config().causal_from;
    TensorId x = build_sam(builder, vision_.sam, edge, "model.sam_model.");
    builder.prefix("model.qwen2_model.", "");
    const TensorId queries =
        position_embedding(graph, "queries", builder.weight(queries_of(builder), "embedding"));
    x = frame_rows(graph, "pixels_and_queries", x, hidden, queries);
    x = builder.run_layers(x, layer_names());
    builder.prefix("model.qwen2_model.model.model.", "");
    x = builder.rms_norm(x, {"norm", ""});
    builder.finish(x);
    PatchWindows behind; // the pixels
    behind.lead = rows;
    behind.height = behind.width = vision_.side(edge);
    x = patch_windows(graph, "query_rows", x, behind);
    builder.prefix("model.projector.", "");
    x = builder.project(x, {"layers", ""}, vision_.size, true, "head");
    if (whole_) {
      builder.prefix("model.", "");
      const WeightView end = builder.tensor({"view_seperator", ""}, "", vision_.size, 0, "embedding");
      x = lead_token(graph, "with_separator", x, builder.weight(end, "embedding"), rows);
    }
    builder.readable().add(PictureTokens::features, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    const auto& sam = vision_.sam;
    return {{"before them", fmt::format("{} layers of {} columns in {} heads, windows of {} patches",
                                        sam.whole.size(), sam.hidden, sam.heads, sam.window)}};
  }

private:
  // Zeros in the place of the pixels, and then the queries.
  WeightView queries_of(EncoderBuilder& builder) const {
    const uint64_t rows = config().causal_from, columns = config().hidden;
    const WeightView stored =
        builder.tensor({whole_ ? "query_1024" : "query_768", ""}, ".weight", rows, columns, "embedding");
    return builder.derived_tensor(
        whole_ ? "queries" : "tile_queries", {2 * rows, columns}, [&](std::span<float> to) {
          std::ranges::fill(to, 0.0f);
          std::ranges::copy(decode_vector(stored), to.begin() + static_cast<ptrdiff_t>(rows * columns));
        });
  }

  static LayerNames layer_names() {
    LayerNames names;
    names.hugging_face = "model.qwen2_model.model.model.layers.{}.";
    names.norm_first = true;
    names.norm = NormKind::rms;
    names.attention.query = {"self_attn.q_proj", ""};
    names.attention.key = {"self_attn.k_proj", ""};
    names.attention.value = {"self_attn.v_proj", ""};
    names.attention.output = {"self_attn.o_proj", ""};
    names.attention.output_bias = false;
    names.attention_norm = {"input_layernorm", ""};
    names.gate = TensorName{"mlp.gate_proj", ""};
    names.up = {"mlp.up_proj", ""};
    names.down = {"mlp.down_proj", ""};
    names.feed_forward_bias = false;
    names.feed_forward_norm = {"post_attention_layernorm", ""};
    return names;
  }

  const OcrVision vision_;
  const bool whole_;
  std::unique_ptr<OcrPictures> tiles_; // null: these are they
};

nlohmann::json ocr_text_settings(const ModelFile& file) {
  return with_defaults(file, "text_config",
                       {{"model_type", "deepseek_ocr2_text"},
                        {"vocab_size", 102400},
                        {"hidden_size", 4096},
                        {"intermediate_size", 11008},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32},
                        {"n_routed_experts", 64},
                        {"n_shared_experts", 2},
                        {"moe_intermediate_size", 1407}});
}

Result<EncoderConfig> read_query_layers(const ModelFile& file, const Fields& vision, const SamConfig& sam) {
  nlohmann::json all = {{"hidden_size", 4096},
                        {"intermediate_size", 22016},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32}};
  PUMICE_CHECK(vision.object_or_empty("encoder_config"));
  if (const nlohmann::json* given = vision.find("encoder_config")) all.update(*given);
  const Settings settings(file, Fields(all, file.path() + "/config.json", "vision_config.encoder_config."));
  PUMICE_CHECK(settings.expect("use_sliding_window", false, false));
  StackConfigNames names;
  names.vocabulary = names.context = {};
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(config.rotary, read_rotary(settings, config));
  config.kind = InputKind::pixels;
  if (config.hidden != sam.out) {
    return settings.error({"hidden_size", ""},
                          fmt::format("expected {}, the last of sam_config.downsample_channels; found {}",
                                      sam.out, config.hidden));
  }
  return config;
}

Status check_ocr_edge(const ModelFile& file, const OcrVision& vision, uint32_t edge, const char* name) {
  const uint32_t square = 4 * vision.sam.patch; // pixels that become one
  if (edge % square == 0 && edge / vision.sam.patch <= SamConfig::most_side) return {};
  return Error{Code::unsupported,
               fmt::format("{}: field '{}': expected a multiple of {}, four patches, of at most {} patches; "
                           "found {}",
                           file.folder().path("preprocessor_config.json"), name, square, SamConfig::most_side,
                           edge)};
}

Result<OcrVision> read_ocr_vision(const ModelFile& file) {
  OcrVision vision;
  PUMICE_TRY(const Fields own, file.fields().object_or_empty("vision_config"));
  PUMICE_TRY(const Fields sam, own.object_or_empty("sam_config"));
  PUMICE_TRY(vision.sam, read_sam_config(Settings(file, sam)));
  PUMICE_TRY(vision.encoder, read_query_layers(file, own, vision.sam));
  PUMICE_TRY(vision.preparation, read_filled_preparation(file.folder()));
  Tiling& tiling = *vision.preparation.tiling;
  PUMICE_CHECK(check_ocr_edge(file, vision, tiling.whole_edge, "size"));
  PUMICE_CHECK(check_ocr_edge(file, vision, tiling.edge, "tile_size"));
  const uint32_t side = vision.side(tiling.edge);
  tiling.tile_rows = {side, side};
  const nlohmann::json text = ocr_text_settings(file);
  PUMICE_TRY(
      vision.size,
      Fields(text, file.path() + "/config.json", "text_config.").u32("hidden_size", 1, limits::columns));
  return vision;
}

OpenedDefinition open_ocr2(const ModelFile& file) {
  PUMICE_TRY(const OcrVision vision, read_ocr_vision(file));
  PictureTokens tokens;
  PUMICE_TRY(tokens.token, file.fields().u32_or("image_token_id", 0, limits::tokens, 128815));
  const uint32_t side = vision.side(vision.preparation.tiling->whole_edge);
  tokens.rows = side * side + 1;
  tokens.markup.place = tokens.markup.picture = "<image>";
  tokens.question = "<image>\nFree OCR. ";
  const nlohmann::json text = ocr_text_settings(file);
  return open_text_decoder(Settings(file, Fields(text, file.path() + "/config.json", "text_config.")),
                           std::move(tokens));
}

OpenedDefinition open_ocr2_pictures(const ModelFile& file) {
  PUMICE_TRY(const OcrVision vision, read_ocr_vision(file));
  return std::unique_ptr<ModelDefinition>(std::make_unique<OcrPictures>(vision, true));
}

} // namespace

Architectures deepseek_ocr2_models() {
  return {{"deepseek_ocr2", {"deepseek_ocr2"}, {}, open_ocr2, open_ocr2_pictures}};
}

} // namespace pumice
