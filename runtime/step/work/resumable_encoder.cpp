#include "step/work/resumable_encoder.h"

namespace pumice {

Result<std::unique_ptr<ResumableEncoder>> ResumableEncoder::create(std::shared_ptr<const Model> model,
                                                                   EncoderOptions options, bool prepared) {
  std::unique_ptr<ResumableEncoder> encoding(
      new ResumableEncoder(std::move(model), std::move(options), prepared));
  PUMICE_CHECK(encoding->make());
  return encoding;
}

ResumableEncoder::~ResumableEncoder() {
  work_.end(encoder_);
}

Status ResumableEncoder::make() {
  if (state_ == State::running && encoder_ && !encoder_->runner().step_open()) state_ = State::done;
  return work_.make(*model_, encoder_, [this]() -> Status {
    PUMICE_TRY(encoder_, Encoder::create(model_, options_));
    if (prepared_) PUMICE_CHECK(encoder_->runner().prepare_all());
    encoder_->runner().set_interrupt(work_.interrupt());
    columns_ = encoder_->columns(output());
    return {};
  });
}

Status ResumableEncoder::ready() {
  if (!work_.broken()) return {};
  PUMICE_CHECK(make());
  return state_ == State::none ? Status() : failed(encode_again());
}

// Runs the inputs again that were lost when the encoder had to be made again; in slices, if they were not
// finished.
Status ResumableEncoder::encode_again() {
  const Result<std::vector<InputRange>> ranges =
      state_ == State::running ? encoder_->open(inputs_) : encoder_->encode(inputs_);
  return ranges.ok() ? Status() : Status(ranges.error());
}

template <class T>
T ResumableEncoder::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) state_ = State::none;
  return work_.checked(std::move(result));
}

Status ResumableEncoder::run(std::span<const EncoderInput> inputs) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(work_.slices().wait()));
  encoder_->runner().close_step();
  state_ = State::none;
  work_.forget_cancel();
  const Result<std::vector<InputRange>> ranges = failed(encoder_->encode(inputs));
  if (!ranges.ok()) return ranges.error();
  inputs_.assign(inputs.begin(), inputs.end());
  state_ = State::done;
  return {};
}

Status ResumableEncoder::begin(std::span<const EncoderInput> inputs) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(work_.slices().wait()));
  state_ = State::none;
  work_.forget_cancel();
  const Result<std::vector<InputRange>> ranges = failed(encoder_->open(inputs));
  if (!ranges.ok()) return ranges.error();
  inputs_.assign(inputs.begin(), inputs.end());
  state_ = State::running;
  return {};
}

Status ResumableEncoder::check_cancelled() {
  if (!work_.cancelled() || state_ != State::running) return {};
  PUMICE_CHECK(work_.slices().wait());
  encoder_->runner().close_step();
  work_.forget_cancel();
  state_ = State::none;
  return Error{Code::cancelled, "encoding was cancelled"};
}

Result<SliceResult> ResumableEncoder::advance(double budget, const SubmitSync& sync) {
  PUMICE_CHECK(ready());
  return failed(slice(VK_NULL_HANDLE, budget, sync));
}

Result<SliceResult> ResumableEncoder::record(VkCommandBuffer into, double budget) {
  PUMICE_CHECK(ready());
  return failed(slice(into, budget, {}));
}

Result<SliceResult> ResumableEncoder::slice(VkCommandBuffer into, double budget, const SubmitSync& sync) {
  Runner& runner = encoder_->runner();
  PUMICE_CHECK(work_.slices().look());
  PUMICE_CHECK(check_cancelled());
  if (state_ == State::running && !runner.step_open() && !work_.slices().under_way()) state_ = State::done;
  const bool more = state_ == State::running && runner.step_open();
  const auto fill = [&]() -> Status {
    const Result<std::optional<Completion>> filled = runner.fill(work_.slices());
    return filled.ok() ? Status() : Status(filled.error());
  };
  SliceResult result;
  PUMICE_TRY(result.report, work_.slices().run(more ? fill : std::function<Status()>(), budget, sync, into));
  if (more) result.largest = runner.largest_dispatch(work_.slices());
  result.active = state_ == State::running;
  return result;
}

Status ResumableEncoder::discard() {
  PUMICE_CHECK(work_.discard_if_broken());
  PUMICE_CHECK(ready());
  work_.slices().discard();
  PUMICE_CHECK(failed(work_.slices().wait()));
  return state_ == State::running ? failed(encode_again()) : Status();
}

Status ResumableEncoder::stop() {
  if (!work_.broken()) {
    PUMICE_CHECK(failed(work_.slices().wait()));
    encoder_->runner().close_step();
  }
  state_ = State::none;
  return {};
}

Result<std::vector<float>> ResumableEncoder::read() {
  PUMICE_CHECK(ready());
  if (state_ == State::running && !encoder_->runner().step_open()) {
    PUMICE_CHECK(failed(work_.slices().wait()));
    state_ = State::done;
  }
  if (state_ != State::done) {
    return Error{Code::not_ready, "there is nothing to read yet: run the inputs to their end first"};
  }
  std::vector<float> all;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    PUMICE_TRY(const std::vector<float> rows, failed(encoder_->read(output(), i)));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

} // namespace pumice
