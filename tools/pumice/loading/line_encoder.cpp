#include "loading/line_encoder.h"

#include <algorithm>

#include <fmt/format.h>

#include "loading/model_kind.h"
#include "model/vocabulary.h"
#include "options/option_text.h"
#include "options/option_values.h"
#include "options/prompt.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr uint32_t most_line_tokens = 8192; // unless asked for more: a step's memory grows with it
constexpr size_t lines_ahead = 1024;        // most lines that are read before they are encoded
constexpr uint32_t most_logits = 1 << 24;   // that a step gives, where each is of a token
constexpr uint32_t tokens_of_an_input = 8;  // a step has room for one input per so many of its tokens

} // namespace

void add_line_options(CLI::App& app, LineOptions& options) {
  app.add_option("MODEL", options.model,
                 "A Hugging Face folder or GGUF file of a text encoder, or of a decoder made for this")
      ->required()
      ->type_name("");
  app.add_option(
         "--max-tokens", options.max_tokens,
         fmt::format("Cut lines after N tokens (default: the model's setting, at most {})", most_line_tokens))
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->group(more_of("Text"));
  add_batch_option(app, options.batch_tokens, device_group);
  add_weights_option(app, options.load);
  add_device_options(app, options.device);
}

void pad(const EncoderShape& shape, std::vector<uint32_t>& tokens) {
  if (shape.padding && tokens.size() < shape.context) tokens.resize(shape.context, *shape.padding);
}

Result<TextEncoder> open_text_encoder(const std::string& path) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(path)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  if (definition->shape().has_decoder() && definition->shape().encoder) {
    return wrong_subcommand(path, definition->shape());
  }
  PUMICE_TRY(definition, open_text_reader(file));
  const ModelShape shape = definition->shape();
  if (shape.encoder->kind != InputKind::tokens) return wrong_kind(path, shape, "it does not read text");
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  return TextEncoder{std::move(file), std::move(definition), std::move(tokenizer)};
}

Result<std::unique_ptr<LineEncoder>> LineEncoder::create(TextEncoder model, const LineOptions& options,
                                                         std::string kept, uint32_t line_limit) {
  const EncoderShape shape = *model.definition->shape().encoder;
  std::unique_ptr<LineEncoder> result(new LineEncoder());
  PUMICE_TRY(result->device_, open_device(options.device));
  LoadOptions load = options.load;
  load.text_reader = true;
  load.readable = {kept};
  PUMICE_TRY(std::shared_ptr<const Model> loaded, load_model(std::move(model.file), result->device_, load));
  const uint32_t usual = std::min(line_limit ? line_limit : most_line_tokens, most_line_tokens);
  result->limit_ = std::min(options.max_tokens ? options.max_tokens : usual, shape.context);
  EncoderOptions encoder;
  encoder.tokens = std::max(batch_tokens(options.batch_tokens), result->limit_);
  encoder.inputs = std::max(encoder.tokens / tokens_of_an_input, 1u);
  if (kept == "logits" && shape.labels.empty()) { // a whole vocabulary's
    encoder.inputs = std::clamp(most_logits / std::max(shape.vocabulary, 1u), 1u, encoder.inputs);
  }
  encoder.readable = {kept};
  PUMICE_TRY(result->encoder_, Encoder::create(std::move(loaded), std::move(encoder)));
  result->kept_ = std::move(kept);
  return result;
}

Status LineEncoder::run(WaitingLines& source, const Encode& encode_line, const Take& take) {
  while (true) {
    PUMICE_TRY(std::vector<Line> arrived, source.next(lines_ahead));
    if (arrived.empty()) return {};
    std::vector<Line> lines;
    std::vector<EncoderInput> inputs;
    Status status;
    for (Line& line : arrived) {
      Result<EncoderInput> input = tokenize(source.name(line), line.text, encode_line);
      if (!input.ok()) {
        status = source.reject(line, std::move(input).error());
        if (!status.ok()) break; // after the results of the lines before
        continue;
      }
      lines.push_back(std::move(line));
      inputs.push_back(*std::move(input));
    }
    PUMICE_CHECK(run(lines, inputs, take));
    PUMICE_CHECK(status);
  }
}

Result<EncoderInput> LineEncoder::tokenize(const std::string& name, const std::string& text,
                                           const Encode& encode_line) {
  const EncoderShape& shape = encoder_->shape();
  Tokenizer::Encoding encoding = encode_line(text, Tokenizer::kNoLimit);
  const bool cut = encoding.ids.size() > limit_;
  if (cut) encoding = encode_line(text, limit_);
  PUMICE_CHECK(check_ids(encoding.ids, shape.vocabulary, name));
  cut_ += cut;
  tokens_ += encoding.ids.size();
  if (shape.token_types < 2) encoding.types.clear();
  pad(shape, encoding.ids);
  return EncoderInput{std::move(encoding.ids), std::move(encoding.types), {}};
}

Status LineEncoder::run(std::span<const Line> lines, std::span<const EncoderInput> inputs, const Take& take) {
  ProgressBar bar("encoding");
  for (size_t first = 0; first < inputs.size();) {
    if (!bar.update(first, inputs.size())) return interruption();
    const ComputeWatch watch;
    const std::span<const EncoderInput> rest = inputs.subspan(first);
    const size_t count = std::max<size_t>(encoder_->fitting(rest), 1);
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(rest.first(count)));
    for (const InputRange& range : ranges) encoder_->release(range);
    std::vector<std::vector<float>> values(count);
    for (size_t i = 0; i < count; ++i) {
      PUMICE_TRY(values[i], encoder_->read(kept_, i));
    }
    seconds_ += watch.seconds();
    bar.erase();
    for (size_t i = 0; i < count; ++i) PUMICE_CHECK(take(lines[first + i], std::move(values[i])));
    first += count;
    lines_ += count;
  }
  return {};
}

Status LineEncoder::finish() const {
  if (cut_) {
    const char* what = limit_ == encoder_->shape().context ? "the model's context" : "the most";
    print_note(fmt::format("{} {} longer than {} of {} tokens and cut off there", counted(cut_, "line"),
                           cut_ == 1 ? "was" : "were", what, limit_));
  }
  print_figures(fmt::format("{} ({})\n{}{}, {}, {}, {:.3f} s{}\n", device_.name(), device_.driver(),
                            compiled_text(), counted(lines_, "line"), counted(tokens_, "token"),
                            counted(encoder_->steps(), "step"), seconds_, rate_text(tokens_, seconds_)));
  return device_.save_pipelines();
}

} // namespace pumice::command
