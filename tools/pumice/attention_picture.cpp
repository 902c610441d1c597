#include "attention_picture.h"

#include <filesystem>

#include <fmt/format.h>

#include "generate/forced_pass.h"
#include "io/safetensors.h"
#include "media/heat_map.h"
#include "option_text.h"
#include "option_values.h"

namespace pumice::command {

namespace {

constexpr std::string_view space_mark = "\u2581"; // SentencePiece's mark for a space
constexpr std::string_view middle_dot = "\u00b7";

bool is_picture(const AttentionOptions& options) {
  return options.path.ends_with(".png");
}

uint32_t layer_of(const AttentionOptions& options, const ModelShape& shape) {
  return options.layer.value_or(static_cast<uint32_t>(shape.layers.size()) - 1);
}

uint32_t heads_of(const ModelShape& shape, uint32_t layer) {
  return shape.encoder->caches[layer].kv_heads; // in cross-attention, as many as query heads
}

// The weights of all heads, and the weights that are shown.
struct Weights {
  uint32_t heads = 0;
  size_t queries = 0, keys = 0;
  std::vector<float> by_head; // [heads, queries, keys]
  std::vector<float> shown;   // [queries, keys]
};

// `rows` is [positions, heads, width]. Copies `queries` positions from `first` on, and the first `keys`
// columns.
void arrange(std::span<const float> rows, size_t first, size_t width, std::optional<uint32_t> head,
             Weights& weights) {
  const size_t size = weights.queries * weights.keys;
  weights.by_head.resize(weights.heads * size);
  weights.shown.assign(size, 0);
  for (uint32_t from = 0; from < weights.heads; ++from) {
    const float share = !head ? 1.0f / static_cast<float>(weights.heads) : *head == from ? 1.0f : 0.0f;
    for (size_t query = 0; query < weights.queries; ++query) {
      for (size_t key = 0; key < weights.keys; ++key) {
        const float weight = rows[((first + query) * weights.heads + from) * width + key];
        weights.by_head[from * size + query * weights.keys + key] = weight;
        weights.shown[query * weights.keys + key] += share * weight;
      }
    }
  }
}

Result<Weights> compute(const std::shared_ptr<const Model>& model, const AttentionOptions& options,
                        const AttendedText& text) {
  const ModelShape& shape = model->shape();
  const uint32_t layer = layer_of(options, shape);
  const std::string name = fmt::format("cross_attentions.{}", layer);
  ForcedInput input{text.input, text.prompt};
  // The last token is left out: nothing is shown for the token after it.
  input.tokens.insert(input.tokens.end(), text.output.begin(), text.output.end() - 1);
  ForcedPassOptions pass_options;
  pass_options.readable = {name};
  pass_options.input_tokens = static_cast<uint32_t>(text.input.tokens.size());
  pass_options.tokens = static_cast<uint32_t>(input.tokens.size());
  PUMICE_TRY(std::unique_ptr<ForcedPass> pass, ForcedPass::create(model, pass_options));
  PUMICE_CHECK(pass->run(std::span(&input, 1)));
  PUMICE_TRY(const std::vector<float> rows, pass->read(name, 0));

  Weights weights;
  weights.heads = heads_of(shape, layer);
  weights.queries = text.output.size();
  weights.keys = text.input.tokens.empty() ? shape.encoder->context : text.input.tokens.size();
  arrange(rows, text.prompt.size() - 1, pass->columns(name) / weights.heads, options.head, weights);
  return weights;
}

Status write_weights(const AttentionOptions& options, uint32_t layer, const AttendedText& text,
                     const Weights& weights) {
  const auto entry = [](std::string name, const auto& values, std::vector<uint64_t> shape) {
    const char* type = sizeof values[0] == sizeof(float) ? "F32" : "I64";
    return SafetensorsFile::Entry{std::move(name), type, std::move(shape), std::as_bytes(std::span(values))};
  };
  const std::vector<int64_t> output_ids(text.output.begin(), text.output.end());
  const std::vector<int64_t> input_ids(text.input.tokens.begin(), text.input.tokens.end());
  std::vector<SafetensorsFile::Entry> entries = {
      entry("attention", weights.shown, {weights.queries, weights.keys}),
      entry(fmt::format("cross_attentions.{}", layer), weights.by_head,
            {weights.heads, weights.queries, weights.keys}),
      entry("output_ids", output_ids, {output_ids.size()}),
  };
  if (!input_ids.empty()) entries.push_back(entry("input_ids", input_ids, {input_ids.size()}));
  return write_safetensors(path_of(options.path), entries);
}

Status draw(const AttentionOptions& options, uint32_t layer, const AttendedText& text,
            const Weights& weights) {
  HeatMap map;
  map.title = options.head ? fmt::format("cross-attention of decoder layer {}, head {}", layer, *options.head)
                           : fmt::format("cross-attention of decoder layer {}, mean of {} heads", layer,
                                         weights.heads);
  map.column_axis = text.input_axis;
  map.rows = text.output_labels;
  map.columns = text.input_labels;
  map.weights = weights.shown;
  // The weights of a row sum to 1. In a text a few positions share that, in a picture or a sound hundreds,
  // which would all look pale.
  map.scale_to_largest = text.input.tokens.empty();
  PUMICE_TRY(const Image image, draw_heat_map(map));
  return write_png(image, path_of(options.path));
}

Status check_file(const AttentionOptions& options) {
  if (!is_picture(options) && !options.path.ends_with(".safetensors")) {
    return Error{
        Code::invalid_argument,
        fmt::format("--attention {}: the name of the file must end in .png or .safetensors", options.path)};
  }
  return {};
}

} // namespace

void add_attention_options(CLI::App& app, AttentionOptions& options) {
  CLI::Option* file = app.add_option("--attention", options.path,
                                     "Show the attention to the input in FILE.png. The picture is a heat map "
                                     "of the decoder's attention; FILE.safetensors gets the numbers")
                          ->type_name("FILE")
                          ->group("Attention");
  app.add_option("--attention-layer", options.layer,
                 "The layer of the decoder to show, counted from 0 (default: the last one)")
      ->type_name("N")
      ->check(within(0u, 1u << 20))
      ->group(more_of("Attention"))
      ->needs(file);
  app.add_option("--attention-head", options.head,
                 "The attention head to show, counted from 0 (default: the mean of all heads of the layer)")
      ->type_name("N")
      ->check(within(0u, 1u << 20))
      ->group(more_of("Attention"))
      ->needs(file);
}

Status check_attention(const AttentionOptions& options, const ModelShape& shape) {
  if (!options.given()) return {};
  PUMICE_CHECK(check_file(options));
  const auto within = [](const char* option, const char* what, uint32_t count, uint32_t found) -> Status {
    if (found < count) return {};
    return Error{Code::invalid_argument,
                 fmt::format("{} {}: {} are 0 to {}", option, found, what, count - 1)};
  };
  const uint32_t layer = layer_of(options, shape);
  PUMICE_CHECK(
      within("--attention-layer", "the decoder's layers", static_cast<uint32_t>(shape.layers.size()), layer));
  return within("--attention-head", "the layer's heads", heads_of(shape, layer), options.head.value_or(0));
}

Status write_attention(const std::shared_ptr<const Model>& model, const AttentionOptions& options,
                       const AttendedText& text) {
  if (text.output.empty()) {
    return Error{Code::invalid_argument, "--attention: no token was generated, so there is nothing to show"};
  }
  PUMICE_TRY(const Weights weights, compute(model, options, text));
  const uint32_t layer = layer_of(options, model->shape());
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
    if (piece.starts_with(space_mark) && !text.starts_with(' ')) label = middle_dot;
    for (const char c : text) {
      if (c == ' ') {
        label += middle_dot;
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
  std::vector<std::string> labels(shape.context);
  const uint32_t height = shape.input_shape[1], width = shape.input_shape[2];
  for (uint32_t size = 1; size <= std::min(height, width); ++size) { // side of a square patch, in pixels
    const uint32_t rows = height / size, columns = width / size, patches = rows * columns;
    if (patches > shape.context) continue;
    if (shape.context - patches > 2) break;
    const uint32_t first = shape.context - patches; // after a class token, and maybe a distillation token
    if (first > 0) labels[0] = "class";
    for (uint32_t row = 0; row < rows; ++row) labels[first + row * columns] = fmt::format("row {}", row + 1);
    break;
  }
  return labels;
}

} // namespace pumice::command
