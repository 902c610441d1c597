#include "output/attention_picture.h"

#include <filesystem>

#include <fmt/format.h>

#include "io/formats/safetensors.h"
#include "io/output_file.h"
#include "media/heat_map.h"
#include "options/option_text.h"
#include "options/option_values.h"
#include "task/translation/alignment.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr std::string_view space_mark = "\u2581"; // SentencePiece's mark for a space
constexpr std::string_view open_box = "\u2423";   // how a space is written that is to be seen

bool is_svg(const AttentionOptions& options) {
  return options.path.ends_with(".svg");
}

bool is_picture(const AttentionOptions& options) {
  return options.path.ends_with(".png") || is_svg(options);
}

uint32_t layer_of(const AttentionOptions& options, const ModelShape& shape) {
  return options.layer.value_or(static_cast<uint32_t>(shape.layers.size()) - 1);
}

Status write_weights(const AttentionOptions& options, uint32_t layer, const AttendedText& text,
                     const AttentionMap& weights) {
  const auto entry = [](std::string name, const auto& values, std::vector<uint64_t> shape) {
    const char* type = sizeof values[0] == sizeof(float) ? "F32" : "I64";
    return SafetensorsFile::Entry{std::move(name), type, std::move(shape), std::as_bytes(std::span(values))};
  };
  const std::vector<float> shown = weights.of(options.head);
  const std::vector<int64_t> output_ids(text.output.begin(), text.output.end());
  const std::vector<int64_t> input_ids(text.input.tokens.begin(), text.input.tokens.end());
  std::vector<SafetensorsFile::Entry> entries = {
      entry("attention", shown, {weights.queries, weights.keys}),
      entry(cross_attention_name(layer), weights.by_head, {weights.heads, weights.queries, weights.keys}),
      entry("output_ids", output_ids, {output_ids.size()}),
  };
  if (!input_ids.empty()) entries.push_back(entry("input_ids", input_ids, {input_ids.size()}));
  return write_safetensors(path_of(options.path), entries);
}

Status draw(const AttentionOptions& options, uint32_t layer, const AttendedText& text,
            const AttentionMap& weights) {
  const std::vector<float> every = weights.of(options.head);
  const size_t columns = text.shown > 0 ? std::min(text.shown, weights.keys) : weights.keys;
  std::vector<float> shown;
  for (size_t row = 0; row < weights.queries; ++row) {
    const float* first = every.data() + row * weights.keys;
    shown.insert(shown.end(), first, first + columns);
  }
  HeatMap map;
  map.title = options.head ? fmt::format("cross-attention of decoder layer {}, head {}", layer, *options.head)
                           : fmt::format("cross-attention of decoder layer {}, mean of {} heads", layer,
                                         weights.heads);
  map.column_axis = text.input_axis;
  map.rows = text.output_labels;
  map.columns = text.input_labels;
  map.columns.resize(columns);
  map.weights = shown;
  // The weights of a row sum to 1. In a text a few positions share that, in a picture or a sound hundreds,
  // which would all look pale.
  map.scale_to_largest = text.input.tokens.empty();
  if (is_svg(options)) {
    PUMICE_TRY(const std::string svg, heat_map_svg(map));
    OutputFile file;
    PUMICE_CHECK(file.open(path_of(options.path)));
    PUMICE_CHECK(file.write(std::as_bytes(std::span(svg))));
    return file.finish();
  }
  PUMICE_TRY(const Image image, draw_heat_map(map));
  PUMICE_CHECK(write_png(image, path_of(options.path)));
  if (const size_t boxes = boxes_in(map).size()) {
    print_note(fmt::format("{}: no font of this machine has {} of its characters, which are boxes with their "
                           "numbers: install one (Debian: fonts-noto-cjk for Chinese, Japanese and Korean), "
                           "or name the file .svg, which is drawn with the fonts of who shows it",
                           options.path, boxes));
  }
  return {};
}

Status check_file(const AttentionOptions& options) {
  if (!is_picture(options) && !options.path.ends_with(".safetensors")) {
    return Error{Code::invalid_argument,
                 fmt::format("--attention {}: the name of the file must end in .png, .svg or .safetensors",
                             options.path)};
  }
  return {};
}

} // namespace

void add_attention_options(CLI::App& app, AttentionOptions& options) {
  app.add_option("--attention", options.path,
                 "Show the attention to the input in FILE.png or FILE.svg. The picture is a heat map "
                 "of the decoder's attention; FILE.safetensors gets the numbers")
      ->type_name("FILE")
      ->group("Attention");
  app.add_option("--attention-layer", options.layer,
                 "The layer of the decoder to show, counted from 0 (default: the last one)")
      ->type_name("N")
      ->check(within(0u, 1u << 20))
      ->group(more_of("Attention"));
  app.add_option("--attention-head", options.head,
                 "The attention head to show, counted from 0 (default: the mean of all heads of the layer)")
      ->type_name("N")
      ->check(within(0u, 1u << 20))
      ->group(more_of("Attention"));
}

void add_alignment_option(CLI::App& app, AttentionOptions& options) {
  app.add_flag(
         "--alignment", options.alignment,
         "Also say from which word of the text each word comes, as in 0-0 1-2: the text's word, then the "
         "translation's, counted from 0. White space separates words; a Chinese character is one")
      ->group(more_of("Attention"));
}

Status check_attention(const AttentionOptions& options, const ModelShape& shape) {
  if (!options.given() && !options.alignment) {
    if (!options.layer && !options.head) return {};
    return Error{Code::invalid_argument, fmt::format("--attention-{} has an effect only with --attention",
                                                     options.layer ? "layer" : "head")};
  }
  if (options.given()) PUMICE_CHECK(check_file(options));
  const auto within = [](const char* option, const char* what, uint32_t count, uint32_t found) -> Status {
    if (found < count) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{} {}: {} are 0 to {}", option, found, what, count - 1)};
  };
  const uint32_t layer = layer_of(options, shape);
  PUMICE_CHECK(
      within("--attention-layer", "the decoder's layers", static_cast<uint32_t>(shape.layers.size()), layer));
  return within("--attention-head", "the layer's heads", cross_attention_heads(shape, layer),
                options.head.value_or(0));
}

Status write_attention(const std::shared_ptr<const Model>& model, const AttentionOptions& options,
                       const AttendedText& text) {
  if (text.output.empty()) {
    return Error{Code::invalid_argument, "--attention: no token was generated, so there is nothing to show"};
  }
  const uint32_t layer = layer_of(options, model->shape());
  PUMICE_TRY(const AttentionMap weights,
             AttentionReader(model, layer).read(text.input, text.prompt, text.output));
  return is_picture(options) ? draw(options, layer, text, weights)
                             : write_weights(options, layer, text, weights);
}

std::vector<std::string> token_labels(const Tokenizer& tokenizer, std::span<const uint32_t> ids) {
  std::vector<std::string> labels;
  for (uint32_t id : ids) {
    const std::string piece(tokenizer.piece(id));
    std::string text = tokenizer.decode(std::span(&id, 1), true);
    // Pieces of words and bytes of characters are shown as the vocabulary spells them.
    const bool fragment = piece.starts_with("##") || text.find("\ufffd") != std::string::npos;
    if (tokenizer.is_special(id) || fragment) text = piece;
    std::string label;
    // SentencePiece adds a space at the beginning of a text, and decoding removes it.
    if (piece.starts_with(space_mark) && !text.starts_with(' ')) label = open_box;
    for (const char c : text) {
      if (c == ' ') {
        label += open_box;
      } else if (static_cast<unsigned char>(c) < ' ') {
        label += fmt::format("<0x{:02X}>", c);
      } else {
        label += c;
      }
    }
    labels.push_back(label.empty() ? piece : label);
  }
  return labels;
}

std::vector<std::string> patch_labels(const EncoderShape& shape) {
  const uint32_t count = shape.picture_rows > 0 ? shape.picture_rows : shape.context;
  std::vector<std::string> labels(count);
  const uint32_t height = shape.input_shape[1], width = shape.input_shape[2];
  for (uint32_t size = 1; size <= std::min(height, width); ++size) { // side of a square patch, in pixels
    const uint32_t rows = height / size, columns = width / size, patches = rows * columns;
    if (patches > count) continue;
    if (count - patches > 2 || height % size || width % size) break; // of other patches
    const uint32_t first = count - patches; // after a class token, and maybe a distillation token
    if (first > 0) labels[0] = shape.picture_rows > 0 ? "all" : "class";
    for (uint32_t row = 0; row < rows; ++row) labels[first + row * columns] = fmt::format("row {}", row + 1);
    break;
  }
  return labels;
}

} // namespace pumice::command
