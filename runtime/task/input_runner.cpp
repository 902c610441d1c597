#include "task/input_runner.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "media/preprocess.h"
#include "step/check_tokens.h"

namespace pumice {

namespace {

constexpr uint32_t usual_batch_tokens = 2048;
constexpr uint32_t most_pictures = 64;     // of a step: of few positions each (ResNet), they take much memory
constexpr uint32_t most_logits = 1 << 24;  // that a step gives, where each is of a token
constexpr uint32_t tokens_of_an_input = 8; // a step has room for one input per so many of its tokens

// What was asked for, or if that is 0 or more than `most`, that.
uint32_t at_most(uint32_t asked, uint32_t most) {
  return asked ? std::min(asked, most) : most;
}

Error was_cancelled() {
  return {Code::cancelled, "the texts or pictures were cancelled"};
}

} // namespace

Result<std::unique_ptr<InputRunner>> InputRunner::create(std::shared_ptr<const Model> model, TaskModel source,
                                                         const RunOptions& options, uint32_t usual_tokens,
                                                         const Making& making) {
  PUMICE_CHECK(source.check_loaded(*model));
  const uint32_t usual_batch = making.chunk ? making.chunk : usual_batch_tokens;
  const uint32_t batch = options.batch_tokens ? options.batch_tokens : usual_batch;
  std::unique_ptr<InputRunner> result(new InputRunner(std::move(model), std::move(source)));
  const EncoderShape& shape = result->shape_;
  EncoderOptions encoder;
  encoder.readable = {result->source_.output};
  if (result->source_.reads_pictures()) {
    encoder.inputs = at_most(options.inputs, std::clamp(batch / shape.context, 1u, most_pictures));
    encoder.tokens = encoder.inputs * shape.context;
  } else {
    const uint32_t usual = at_most(usual_tokens, most_text_tokens);
    result->limit_ = std::min(options.max_tokens ? options.max_tokens : usual, shape.context);
    encoder.tokens = std::max(batch, result->limit_);
    const uint32_t most_rows = std::max(most_logits / std::max(shape.vocabulary, 1u), 1u);
    if (result->source_.output == "sparse_embedding") { // logits of each token
      encoder.tokens = std::max(std::min(batch, most_rows), result->limit_);
    }
    encoder.inputs = at_most(options.inputs, std::max(encoder.tokens / tokens_of_an_input, 1u));
    const bool logits = result->source_.output == "logits" || result->source_.output == "masked_logits";
    if (logits && shape.labels.empty())
      encoder.inputs = std::min(most_rows, encoder.inputs); // a vocabulary's
  }
  PUMICE_TRY(result->encoding_, ResumableEncoder::create(result->model_, std::move(encoder), making));
  result->most_inputs_ = result->encoding_->encoder().runner().size().sequences;
  return result;
}

bool InputRunner::mostly_unknown(std::span<const uint32_t> ids) const {
  size_t unknown = 0, known = 0;
  for (uint32_t id : ids) {
    if (std::ranges::count(source_.unknown, id)) {
      ++unknown;
    } else if (source_.tokenizer && !source_.tokenizer->is_special(id)) {
      ++known;
    }
  }
  return unknown > known;
}

Result<EncoderInput> InputRunner::read(const Encode& encode, const std::string& name) {
  Tokenizer::Encoding encoding = encode(Tokenizer::kNoLimit);
  const bool cut = encoding.ids.size() > limit_;
  if (cut) encoding = encode(limit_);
  PUMICE_CHECK(check_ids(encoding.ids, shape_.vocabulary, name));
  figures_.cut += cut;
  figures_.unknown += mostly_unknown(encoding.ids);
  figures_.tokens += encoding.ids.size();
  if (shape_.token_types < 2) encoding.types.clear();
  if (shape_.padding && encoding.ids.size() < shape_.context)
    encoding.ids.resize(shape_.context, *shape_.padding);
  return EncoderInput{std::move(encoding.ids), std::move(encoding.types), {}};
}

Result<EncoderInput> InputRunner::read(const std::string& text, const std::string& name) {
  return read([&](size_t limit) { return source_.tokenizer->encode_limited(text, limit); }, name);
}

Result<EncoderInput> InputRunner::read(std::vector<uint32_t> ids, const std::string& name) {
  if (ids.empty() || ids.size() > limit_) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: it has {} tokens, and the model reads 1 to {}", name, ids.size(), limit_)};
  }
  return read([&](size_t) { return Tokenizer::Encoding{std::move(ids), {}}; }, name);
}

Result<EncoderInput> InputRunner::read(const Tokenizer::Encoding& encoding, const std::string& name) {
  return read([&](size_t) { return encoding; }, name);
}

Result<EncoderInput> InputRunner::read(const Image& picture, const std::string& name) const {
  EncoderInput input;
  PUMICE_TRY(input.values, prepare(picture, *source_.preparation, name));
  return input;
}

Result<InputRunner::Step> InputRunner::begin_step(std::span<const EncoderInput> inputs, size_t first,
                                                  bool in_slices) {
  if (first == inputs.size()) return Step();
  if (cancelled_) return was_cancelled();
  Step step{first, 0, Clock::now()};
  PUMICE_CHECK(encoding_->ready());
  const std::span<const EncoderInput> rest = inputs.subspan(first);
  step.count = std::max<size_t>(encoding_->encoder().fitting(rest), 1);
  std::vector<EncoderInput> fitting(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(step.count));
  PUMICE_CHECK(in_slices ? encoding_->begin(std::move(fitting)) : encoding_->run(std::move(fitting)));
  return step;
}

Status InputRunner::hand_out(std::span<const EncoderInput> inputs, const Step& step,
                             const std::vector<float>& rows, const Take& take) const {
  auto row = rows.begin();
  for (size_t i = step.first; i < step.first + step.count; ++i) {
    const size_t count = source_.each_token ? inputs[i].tokens.size() : inputs[i].output_count();
    const auto end = row + static_cast<ptrdiff_t>(count * columns());
    PUMICE_CHECK(take(i, std::vector<float>(row, end)));
    row = end;
  }
  return {};
}

Status InputRunner::run(std::span<const EncoderInput> inputs, const Take& take, const Progress& progress) {
  cancelled_ = done_ = false;
  step_ = {};
  Result<Step> next = begin_step(inputs, 0);
  while (next.ok() && next->count > 0) {
    const Step step = *next;
    if (progress && !progress(step.first, inputs.size())) return was_cancelled();
    PUMICE_TRY(const std::vector<float> rows, encoding_->read());
    figures_.seconds += std::chrono::duration<double>(Clock::now() - step.begin).count();
    figures_.inputs += step.count;
    ++figures_.steps;
    next = begin_step(inputs, step.first + step.count); // the device does not wait for who takes the rows
    PUMICE_CHECK(hand_out(inputs, step, rows, take));
  }
  return next.ok() ? Status() : Status(next.error());
}

Status InputRunner::begin(std::vector<EncoderInput> inputs, Take take) {
  PUMICE_CHECK(encoding_->stop());
  cancelled_ = done_ = false;
  step_ = {};
  inputs_ = std::move(inputs);
  take_ = std::move(take);
  PUMICE_TRY(step_, begin_step(inputs_, 0, true));
  done_ = step_.count == 0;
  return {};
}

Result<SliceResult> InputRunner::slice(const SliceRequest& request) {
  while (true) {
    Result<SliceResult> result = encoding_->slice(request);
    if (!result.ok() && result.error().code == Code::cancelled) step_ = {};
    if (!result.ok() || result->active || step_.count == 0) return result;
    const Step ended = std::exchange(step_, {}); // whatever comes, its rows are handed out once
    PUMICE_TRY(const std::vector<float> rows, encoding_->read());
    PUMICE_CHECK(hand_out(inputs_, ended, rows, take_));
    PUMICE_TRY(step_, begin_step(inputs_, ended.first + ended.count, true));
    done_ = step_.count == 0;
    result->active = !done_;
    // A slice that only saw the end of a step is that of the next one.
    if (done_ || result->report.dispatches > 0) return result;
  }
}

Status InputRunner::run_parts(std::span<const std::vector<EncoderInput>> texts, const Take& take,
                              const Progress& progress) {
  std::vector<EncoderInput> inputs;
  std::vector<size_t> ends; // of each text's inputs
  for (const std::vector<EncoderInput>& parts : texts) {
    inputs.insert(inputs.end(), parts.begin(), parts.end());
    ends.push_back(inputs.size());
  }
  std::vector<float> rows;
  size_t text = 0;
  const auto take_finished = [&](size_t done) -> Status {
    for (; text < ends.size() && ends[text] <= done; ++text)
      PUMICE_CHECK(take(text, std::exchange(rows, {})));
    return {};
  };
  PUMICE_CHECK(take_finished(0)); // those of no inputs
  return run(
      inputs,
      [&](size_t i, const std::vector<float>& row) -> Status {
        rows.insert(rows.end(), row.begin(), row.end());
        return take_finished(i + 1);
      },
      progress);
}

Result<std::vector<std::vector<float>>> InputRunner::run(std::span<const EncoderInput> inputs) {
  std::vector<std::vector<float>> rows;
  PUMICE_CHECK(run(inputs, [&](size_t, std::vector<float> row) -> Status {
    rows.push_back(std::move(row));
    return {};
  }));
  return rows;
}

void InputRunner::cancel() {
  cancelled_ = true;
  encoding_->cancel();
}

} // namespace pumice
