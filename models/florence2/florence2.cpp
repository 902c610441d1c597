#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/convolution/pictures.h"
#include "kernel/heads/heads.h"
#include "kernel/norm/norm.h"
#include "media/preprocess.h"
#include "models/bart/bart.h"
#include "models/florence2/davit.h"
#include "models/registry.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr uint32_t usual_edge = 768; // of a picture

// What its tasks are called, and what the model was trained to be asked.
constexpr std::pair<std::string_view, std::string_view> florence2_tasks[] = {
    {"<CAPTION>", "What does the image describe?"},
    {"<DETAILED_CAPTION>", "Describe in detail what is shown in the image."},
    {"<MORE_DETAILED_CAPTION>", "Describe with a paragraph what is shown in the image."},
    {"<OCR>", "What is the text in the image?"},
    {"<OCR_WITH_REGION>", "What is the text in the image, with regions?"},
    {"<OD>", "Locate the objects with category name in the image."},
    {"<DENSE_REGION_CAPTION>", "Locate the objects in the image, with their descriptions."},
    {"<REGION_PROPOSAL>", "Locate the region proposals in the image."},
    {"<CAPTION_TO_PHRASE_GROUNDING>", "Locate the phrases in the caption: {input}"},
    {"<REFERRING_EXPRESSION_SEGMENTATION>", "Locate {input} in the image with mask"},
    {"<REGION_TO_SEGMENTATION>", "What is the polygon mask of region {input}"},
    {"<OPEN_VOCABULARY_DETECTION>", "Locate {input} in the image."},
    {"<REGION_TO_CATEGORY>", "What is the region {input}?"},
    {"<REGION_TO_DESCRIPTION>", "What does the region {input} describe?"},
    {"<REGION_TO_OCR>", "What text is in the region {input}?"},
};

// What makes rows of the pixels that DaViT gives.
struct Florence2Config {
  DavitConfig davit;
  uint32_t places = 50; // of a pixel, across and down
  uint32_t times = 100; // of a film's pictures, of which a picture is the first
  std::string root;     // of the names of the tensors that see
};

// Florence-2 (Xiao et al. 2023): BART, whose encoder reads the rows of a picture and then a task's words.
class Florence2 : public Bart {
public:
  Florence2(BartModel text, Florence2Config own) : Bart(std::move(text), false), own_(std::move(own)) {}

  Status set_picture_size(uint32_t height, uint32_t width) override {
    PUMICE_CHECK(check_picture(own_.davit, height, width));
    const CellLayout pixels = own_.davit.last_pixels(height, width);
    if (std::max(pixels.height, pixels.width) > own_.places) {
      return Error{Code::unsupported,
                   fmt::format("a picture of {} x {} pixels has {} x {} rows: expected at most {} on a side "
                               "(vision_config.max_position_embeddings)",
                               height, width, pixels.height, pixels.width, own_.places)};
    }
    const uint32_t rows = 1 + pixels.pixels();
    if (rows + 2 > encoder().context) {
      return Error{Code::unsupported,
                   fmt::format("a picture of {} x {} pixels has {} rows: expected some fewer than {} "
                               "(text_config.max_position_embeddings)",
                               height, width, rows, encoder().context)};
    }
    changed_encoder().input_shape = {own_.davit.colours, height, width};
    changed_encoder().picture_rows = rows;
    return {};
  }

protected:
  // The mean of the pixels, and the pixels, as rows of the encoder, before its tokens.
  TensorId encoder_rows(EncoderBuilder& builder, TensorId embeddings) const override {
    Graph& graph = builder.graph();
    const uint32_t height = encoder().input_shape[1], width = encoder().input_shape[2];
    const CellLayout pixels = own_.davit.last_pixels(height, width);
    const uint32_t columns = own_.davit.stages.back().channels, count = pixels.pixels();
    TensorId x = build_davit(builder, own_.davit, height, width, own_.root + "vision_tower.");
    builder.prefix(own_.root + "multi_modal_projector.", "");
    CellSums sum;
    sum.cells = CellLayout::of_pictures(1, 1);
    x = cell_sums(graph, "placed_pixels", x, {}, sum, builder.weight(places(builder, pixels), "embedding"));
    PoolPixels pool;
    pool.channels = columns;
    pool.height = pool.window_height = pixels.height;
    pool.width = pool.window_width = pixels.width;
    pool.mean = true;
    const TensorId mean = pool_pixels(graph, "mean_pixel", x, pool);
    x = join_heads(graph, "mean_and_pixels", mean, {0, 0, columns}, x, {0, 0, count * columns}, 1);
    const WeightView matrix =
        builder.tensor({"image_projection", ""}, ".weight", encoder().hidden, columns, "projector");
    x = shared_head_linear(graph, "image_projection", x, {columns, 0, columns}, 1 + count,
                           builder.weight(matrix, "projector"));
    const auto norm = [&](std::string_view part) {
      return builder.weight(builder.tensor({"image_proj_norm", ""}, part, encoder().hidden, 0, "norms"),
                            "norms");
    };
    x = grouped_layer_norm(graph, "image_proj_norm", x, norm(".weight"), norm(".bias"), 1 + count, 1e-5f);
    return frame_rows(graph, "picture_and_text", x, encoder().hidden, embeddings);
  }

private:
  // What is added to each pixel: a part for its column, one for its line, and what a film's first picture
  // has.
  WeightView places(EncoderBuilder& builder, const CellLayout& pixels) const {
    const uint32_t columns = own_.davit.stages.back().channels, half = columns / 2;
    const auto table = [&](std::string_view name, uint32_t rows, uint32_t size, std::string_view suffix) {
      return builder.tensor({name, ""}, suffix, rows, size, "embedding");
    };
    const WeightView across = table("image_position_embed.column_embeddings", own_.places, columns - half,
                                    ".weight"),
                     down = table("image_position_embed.row_embeddings", own_.places, half, ".weight"),
                     times = table("visual_temporal_embed.pos_idx_to_embed", own_.times, columns, "");
    return builder.derived_tensor(
        fmt::format("places.{}x{}", pixels.height, pixels.width), {uint64_t{pixels.pixels()} * columns},
        [&](std::span<float> to) {
          const std::vector<float> x = decode_vector(across), y = decode_vector(down),
                                   time = decode_vector(times);
          for (size_t i = 0; i < to.size(); ++i) {
            const size_t pixel = i / columns, column = i % columns, split = columns - half;
            to[i] = time[column] + (column < split ? x[pixel % pixels.width * split + column]
                                                   : y[pixel / pixels.width * half + column - split]);
          }
        });
  }

  const Florence2Config own_;
};

Result<Florence2Config> read_florence2_config(const Settings& settings, uint32_t hidden) {
  Florence2Config config;
  PUMICE_TRY(const std::string type, settings.fields().string_or("model_type", "florence_vision"));
  if (type != "florence_vision")
    return settings.error({"model_type", ""}, fmt::format("expected florence_vision, which folders of "
                                                          "florence-community have; found '{}'",
                                                          type));
  PUMICE_TRY(config.davit, read_davit_config(settings));
  PUMICE_TRY(config.places, settings.u32_or({"max_position_embeddings", ""}, 1, limits::context, 50));
  PUMICE_TRY(config.times, settings.u32_or({"max_temporal_embeddings", ""}, 1, limits::context, 100));
  PUMICE_TRY(const uint32_t columns, settings.u32_or({"projection_dim", ""}, 1, limits::columns, 1024));
  if (columns != hidden) {
    return settings.error({"projection_dim", ""},
                          fmt::format("expected {}, text_config's d_model; found {}", hidden, columns));
  }
  config.root = prefix_of(settings.file(), "vision_tower.convs.0.conv.weight", {"model.", ""});
  return config;
}

OpenedDefinition open_florence2(const ModelFile& file) {
  const nlohmann::json text = with_defaults(file, "text_config",
                                            {{"model_type", "bart"},
                                             {"vocab_size", 50265},
                                             {"d_model", 1024},
                                             {"encoder_layers", 12},
                                             {"encoder_ffn_dim", 4096},
                                             {"encoder_attention_heads", 16},
                                             {"decoder_layers", 12},
                                             {"decoder_ffn_dim", 4096},
                                             {"decoder_attention_heads", 16}});
  const Fields text_fields(text, file.path() + "/config.json", "text_config.");
  PUMICE_TRY(const std::string type, text_fields.string("model_type"));
  if (type != "bart") return text_fields.error("model_type", fmt::format("expected bart; found '{}'", type));
  PUMICE_TRY(BartModel bart, read_bart_model(Settings(file, text_fields)));
  bart.own.logits_bias = false;
  PUMICE_TRY(bart.config.decoder.tied_head, file.fields().boolean_or("tie_word_embeddings", true));
  EncoderConfig& encoder = bart.config.encoder;
  encoder.kind = InputKind::pixels;
  encoder.tasks.assign(std::begin(florence2_tasks), std::end(florence2_tasks));
  PUMICE_TRY(const Fields vision, file.fields().object_or_empty("vision_config"));
  PUMICE_TRY(Florence2Config own, read_florence2_config(Settings(file, vision), encoder.hidden));
  auto model = std::make_unique<Florence2>(std::move(bart), std::move(own));
  // Any size will do: this is the usual one, or the next smaller one that the model has positions for.
  PUMICE_TRY(const std::optional<PictureSize> size, read_picture_size(file.folder()));
  const PictureSize first = size.value_or(PictureSize{usual_edge, usual_edge});
  const Status status = model->set_picture_size(first.height, first.width);
  bool fits = status.ok();
  for (uint32_t edge = size ? 0 : usual_edge / 2; !fits && edge > 0; edge /= 2)
    fits = model->set_picture_size(edge, edge).ok();
  if (fits) return std::unique_ptr<ModelDefinition>(std::move(model));
  Error error = status.error();
  error.message = size ? fmt::format("{}: field 'size': {}", file.folder().path("preprocessor_config.json"),
                                     error.message)
                       : fmt::format("{}/config.json: {}", file.path(), error.message);
  return error;
}

} // namespace

Architectures florence2_models() {
  return {{"florence2", {"florence2"}, {}, open_florence2}};
}

} // namespace pumice
