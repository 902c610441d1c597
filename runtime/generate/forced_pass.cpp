#include "generate/forced_pass.h"

#include <algorithm>

#include <fmt/format.h>

#include "step/rotary_places.h"

namespace pumice {

namespace {

constexpr std::string_view encoder_prefix = "encoder_";

// Whether a picture has to be in one step.
bool bidirectional_pictures(const ModelShape& shape) {
  return shape.pictures && shape.pictures->bidirectional;
}

} // namespace

std::string cross_attention_name(uint32_t layer) {
  return fmt::format("cross_attentions.{}", layer);
}

uint32_t cross_attention_heads(const ModelShape& shape, uint32_t layer) {
  return shape.encoder->caches[layer].kv_heads; // as many as query heads
}

Result<std::unique_ptr<ForcedPass>> ForcedPass::create(std::shared_ptr<const Model> model,
                                                       ForcedPassOptions options) {
  std::unique_ptr<ForcedPass> pass(new ForcedPass());
  pass->options_ = std::move(options);
  const ForcedPassOptions& kept_options = pass->options_;
  const ModelShape& shape = pass->shape_ = model->shape();
  EncoderOptions encoder;
  encoder.inputs = kept_options.inputs;
  encoder.cache = kept_options.cache;
  RunnerOptions runner;
  runner.sampling = false;
  runner.all_outputs = kept_options.logits;
  for (const std::string& name : kept_options.readable) {
    if (pass->of_encoder(name)) {
      encoder.readable.push_back(pass->encoder_name(name));
    } else {
      runner.readable.push_back(name);
    }
  }
  if (shape.encoder)
    encoder.tokens = kept_options.input_tokens ? kept_options.input_tokens : shape.encoder->context;
  if (shape.has_decoder()) {
    runner.size.context = kept_options.tokens;
    runner.size.sequences = kept_options.inputs;
    runner.size.chunk = bidirectional_pictures(shape) ? std::max(kept_options.chunk, kept_options.tokens)
                                                      : kept_options.chunk;
    runner.size.cache = kept_options.cache;
    if (shape.encoder) {
      runner.size.input_positions =
          Encoder::cache_positions(*model, kept_options.cache, encoder.tokens, kept_options.inputs);
    }
    PUMICE_TRY(pass->decoder_, Runner::create(model, std::move(runner)));
    encoder.caches = pass->decoder_->shared_caches();
  }
  if (shape.encoder) {
    PUMICE_TRY(pass->encoder_, Encoder::create(std::move(model), std::move(encoder)));
  }
  return pass;
}

Status ForcedPass::prepare(const Making& making) {
  if (encoder_) PUMICE_CHECK(encoder_->runner().prepare_all(making.threads, making.progress));
  return decoder_ ? decoder_->prepare_all(making.threads, making.progress) : Status();
}

bool ForcedPass::of_encoder(const std::string& name) const {
  return !shape_.has_decoder() || (shape_.encoder && name.starts_with(encoder_prefix));
}

std::string ForcedPass::encoder_name(const std::string& name) const {
  return shape_.has_decoder() ? name.substr(encoder_prefix.size()) : name;
}

uint32_t ForcedPass::columns(const std::string& name) const {
  return of_encoder(name) ? encoder_->columns(encoder_name(name)) : decoder_->columns(name);
}

size_t ForcedPass::fitting(std::span<const ForcedInput> inputs) {
  size_t count = std::min<size_t>(inputs.size(), options_.inputs);
  if (!encoder_) return count;
  std::vector<EncoderInput> encoded;
  for (const ForcedInput& each : inputs.first(count)) encoded.push_back(each.input);
  return encoder_->fitting(encoded);
}

Status ForcedPass::run(std::span<const ForcedInput> inputs) {
  if (encoder_) {
    std::vector<EncoderInput> encoded;
    for (const ForcedInput& each : inputs) encoded.push_back(each.input);
    PUMICE_TRY(const std::vector<InputRange> ranges, encoder_->encode(encoded));
    // Their positions stay valid until the next encode(), which comes after the decoder has read them.
    for (const InputRange& range : ranges) encoder_->release(range);
    for (uint32_t i = 0; decoder_ && i < ranges.size(); ++i) PUMICE_CHECK(decoder_->set_input(i, ranges[i]));
  }
  return decoder_ ? run_decoder(inputs) : Status();
}

Result<std::vector<StepToken>> ForcedPass::rows_of(const ForcedInput& input, uint32_t sequence) {
  const bool placed = shape_.pictures && shape_.pictures->has_places();
  RotaryPlaces places;
  if (placed && input.embeddings) places = RotaryPlaces(input.tokens, input.embeddings->grids);
  if (placed) PUMICE_CHECK(decoder_->set_place_lag(sequence, places.lag()));
  std::vector<StepToken> rows;
  for (uint32_t at = 0; at < input.tokens.size(); ++at) {
    StepToken& row = rows.emplace_back(StepToken{input.tokens[at], at, sequence, 0, options_.logits});
    const RotaryPlaces::Place place = places.at(at);
    row.position_offset = places.lag() - place.lag;
    row.down = place.down;
    row.across = place.across;
  }
  for (size_t at = rows.size(); bidirectional_pictures(shape_) && at-- > 0;) {
    if (!is_prompt_row(rows[at].token)) continue;
    const bool more = at + 1 < rows.size() && is_prompt_row(rows[at + 1].token);
    rows[at].end = more ? rows[at + 1].end : rows[at].position + 1;
  }
  return rows;
}

Status ForcedPass::run_decoder(std::span<const ForcedInput> inputs) {
  std::vector<StepToken> rows;
  first_rows_.clear();
  tensors_.clear();
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    first_rows_.push_back(rows.size());
    PUMICE_TRY(const std::vector<StepToken> input_rows, rows_of(inputs[i], i));
    rows.insert(rows.end(), input_rows.begin(), input_rows.end());
  }
  first_rows_.push_back(rows.size());
  for (size_t first = 0, count = 0; first < rows.size(); first += count) {
    count = std::min<size_t>(decoder_->size().chunk, rows.size() - first);
    if (bidirectional_pictures(shape_))
      count = std::min(count, first_rows_[rows[first].sequence + 1] - first);
    PUMICE_CHECK(run_step(inputs, std::span(rows).subspan(first, count)));
  }
  return {};
}

Status ForcedPass::run_step(std::span<const ForcedInput> inputs, std::span<const StepToken> rows) {
  const auto count = static_cast<uint32_t>(rows.size());
  PUMICE_CHECK(decoder_->write_step(rows));
  for (uint32_t i = 0; i < count; ++i) {
    if (!is_prompt_row(rows[i].token)) continue;
    const ForcedInput& input = inputs[rows[i].sequence];
    const auto number = static_cast<size_t>(
        std::count_if(input.tokens.begin(), input.tokens.begin() + rows[i].position, is_prompt_row));
    const size_t columns = input.embeddings->values.size() /
                           static_cast<size_t>(std::ranges::count_if(input.tokens, is_prompt_row));
    PUMICE_CHECK(decoder_->write_input(
        count, i, std::span(input.embeddings->values).subspan(number * columns, columns)));
  }
  PUMICE_CHECK(decoder_->submit(count));
  for (const std::string& name : options_.readable) {
    if (of_encoder(name)) continue;
    PUMICE_TRY(const std::vector<float> values, decoder_->read(name, count));
    std::vector<float>& all = tensors_[name];
    all.insert(all.end(), values.begin(), values.end());
  }
  return {};
}

Result<std::vector<float>> ForcedPass::read(const std::string& name, size_t input) const {
  if (of_encoder(name)) return encoder_->read(encoder_name(name), input);
  const auto found = tensors_.find(name);
  if (found == tensors_.end() || input + 1 >= first_rows_.size()) {
    return Error{Code::invalid_argument,
                 fmt::format("the tensor '{}' of input {} was not read by the last pass", name, input)};
  }
  const size_t width = columns(name);
  const auto begin = found->second.begin() + static_cast<ptrdiff_t>(first_rows_[input] * width);
  const auto end = found->second.begin() + static_cast<ptrdiff_t>(first_rows_[input + 1] * width);
  return std::vector<float>(begin, end);
}

} // namespace pumice
