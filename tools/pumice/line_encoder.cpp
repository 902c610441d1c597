#include "line_encoder.h"

#include <algorithm>
#include <iostream>
#include <numeric>

#include <fmt/format.h>

#include "model/vocabulary.h"
#include "model_kind.h"
#include "prompt.h"
#include "terminal.h"

namespace pumice::command {

namespace {

constexpr size_t sorted_lines = 4096;      // lines that are read ahead and sorted by length
constexpr uint32_t tokens_of_an_input = 8; // a step has room for one input per so many of its tokens

} // namespace

bool LineSource::read(std::string& line) {
  if (given_) {
    if (count_ == texts_.size()) return false;
    line = texts_[count_];
    return true;
  }
  if (!std::getline(std::cin, line)) return false;
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

Result<std::vector<std::string>> LineSource::next(size_t most) {
  std::vector<std::string> lines;
  std::string line;
  while (lines.size() < most && read(line)) {
    PUMICE_CHECK(check_utf8(line, name(count_++)));
    lines.push_back(std::move(line));
  }
  if (std::cin.bad()) return Error{Code::io, "standard input: it could not be read"};
  return lines;
}

std::string LineSource::name(uint64_t line) const {
  return fmt::format("{} {}", given_ ? "TEXT" : "standard input: line", line + 1);
}

void add_line_options(CLI::App& app, LineOptions& options) {
  app.add_option("MODEL", options.model, "A GGUF file or a Hugging Face folder of a text encoder (BERT ...)")
      ->required()
      ->type_name("");
  add_batch_option(app, options.batch_tokens, "Memory");
  add_weights_option(app, options.load);
  add_device_options(app, options.device);
}

Result<TextEncoder> open_text_encoder(const std::string& path) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (shape.has_decoder()) return wrong_subcommand(path, shape);
  if (shape.encoder->kind != InputKind::tokens) return wrong_kind(path, shape, "it does not read text");
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  return TextEncoder{std::move(file), std::move(definition), std::move(tokenizer)};
}

Result<std::unique_ptr<LineEncoder>> LineEncoder::create(TextEncoder model, const LineOptions& options,
                                                         std::string kept) {
  const EncoderShape shape = *model.definition->shape().encoder;
  std::unique_ptr<LineEncoder> result(new LineEncoder());
  PUMICE_TRY(result->device_, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> loaded,
             load_model(std::move(model.file), result->device_, options.load));
  EncoderOptions encoder;
  encoder.tokens = std::max(batch_tokens(options.batch_tokens), shape.context);
  encoder.inputs = std::max(encoder.tokens / tokens_of_an_input, 1u);
  encoder.readable = {kept};
  PUMICE_TRY(result->encoder_, Encoder::create(std::move(loaded), std::move(encoder)));
  result->kept_ = std::move(kept);
  return result;
}

Status LineEncoder::run(LineSource& source, const Encode& encode_line, const Take& take) {
  while (true) {
    PUMICE_TRY(const std::vector<std::string> lines, source.next(sorted_lines));
    if (lines.empty()) return {};
    const Stopwatch watch;
    PUMICE_TRY(std::vector<EncoderInput> inputs, tokenize(source, lines, encode_line));
    PUMICE_TRY(std::vector<std::vector<float>> values, encode(std::move(inputs)));
    seconds_ += watch.seconds();
    for (size_t i = 0; i < lines.size(); ++i) take(lines[i], std::move(values[i]));
    lines_ += lines.size();
  }
}

Result<std::vector<EncoderInput>> LineEncoder::tokenize(const LineSource& source,
                                                        std::span<const std::string> lines,
                                                        const Encode& encode_line) {
  const EncoderShape& shape = encoder_->shape();
  std::vector<EncoderInput> inputs;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string name = source.name(lines_ + i);
    Tokenizer::Encoding encoding = encode_line(lines[i], Tokenizer::kNoLimit);
    if (encoding.ids.size() > shape.context) {
      encoding = encode_line(lines[i], shape.context);
      ++cut_;
    }
    PUMICE_CHECK(check_ids(encoding.ids, shape.vocabulary, name));
    tokens_ += encoding.ids.size();
    if (shape.token_types < 2) encoding.types.clear();
    inputs.push_back({std::move(encoding.ids), std::move(encoding.types), {}});
  }
  return inputs;
}

Result<std::vector<std::vector<float>>> LineEncoder::encode(std::vector<EncoderInput> inputs) {
  std::vector<size_t> order(inputs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return inputs[i].tokens.size(); });
  std::vector<EncoderInput> sorted;
  for (size_t i : order) sorted.push_back(std::move(inputs[i]));
  std::vector<std::vector<float>> values(sorted.size());
  ProgressBar bar("encoding");
  for (size_t first = 0; first < sorted.size();) {
    if (!bar.update(first, sorted.size())) return interruption();
    const std::span<const EncoderInput> rest = std::span<const EncoderInput>(sorted).subspan(first);
    const size_t count = std::max<size_t>(encoder_->fitting(rest), 1);
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(rest.first(count)));
    for (const InputRange& range : ranges) encoder_->release(range);
    for (size_t i = 0; i < count; ++i) {
      PUMICE_TRY(values[order[first + i]], encoder_->read(kept_, i));
    }
    first += count;
  }
  return values;
}

Status LineEncoder::finish() const {
  if (cut_) {
    print_note(fmt::format("{} line{} longer than the model's context of {} tokens and cut off there", cut_,
                           cut_ == 1 ? " was" : "s were", encoder_->shape().context));
  }
  fmt::print(stderr, "{} ({})\n{} lines, {} tokens, {} steps, {:.3f} s, {:.1f} tokens/s\n", device_.name(),
             device_.driver(), lines_, tokens_, encoder_->steps(), seconds_,
             seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0.0);
  return device_.save_pipelines();
}

} // namespace pumice::command
