#include "session/encoding.h"

namespace pumice {

Result<std::unique_ptr<Encoding>> Encoding::create(std::shared_ptr<const Model> model,
                                                   EncoderOptions options) {
  std::unique_ptr<Encoding> encoding(new Encoding(std::move(model), std::move(options)));
  PUMICE_CHECK(encoding->make());
  return encoding;
}

Encoding::~Encoding() {
  if (!slices_) return;
  slices_->discard();
  (void)slices_->wait();
}

Status Encoding::make() {
  encoder_.reset();
  slices_ = std::make_unique<Slices>(model_->context().device);
  sliced_ = broken_ = false;
  PUMICE_TRY(std::unique_ptr<Encoder> encoder, Encoder::create(model_, options_));
  PUMICE_CHECK(encoder->runner().prepare_all());
  encoder->runner().set_interrupt(&cancelled_);
  encoder_ = std::move(encoder);
  columns_ = encoder_->columns(output());
  return {};
}

Status Encoding::ready() {
  if (!broken_ && encoder_) return {};
  // The application's command buffers may still be at work with what is about to go. A lost device is not.
  if (const Status status = slices_->wait(); !status.ok() && status.error().code != Code::device_lost) {
    return status;
  }
  if (state_ == State::running && encoder_ && !encoder_->runner().step_open()) state_ = State::done;
  PUMICE_CHECK(make());
  return state_ == State::none ? Status() : failed(encode_again());
}

// What was lost with an encoder that had to be made anew: in slices again, where some were still to come.
Status Encoding::encode_again() {
  if (state_ == State::running) {
    PUMICE_CHECK(use_slices(true));
    return encoder_->open(inputs_);
  }
  const Result<std::vector<InputRange>> ranges = encoder_->encode(inputs_);
  return ranges.ok() ? Status() : Status(ranges.error());
}

template <class T>
T Encoding::failed(T result) {
  if (result.ok()) return result;
  const Code code = result.error().code;
  if (code == Code::not_ready || code == Code::invalid_argument) return result;
  if (code == Code::cancelled) {
    state_ = State::none;
    return result;
  }
  slices_->abandon();
  broken_ = true;
  return result;
}

Status Encoding::use_slices(bool wanted) {
  PUMICE_CHECK(slices_->wait());
  if (sliced_ == wanted) return {};
  encoder_->runner().set_slices(wanted ? slices_.get() : nullptr);
  sliced_ = wanted;
  return {};
}

Status Encoding::run(std::span<const EncoderInput> inputs) {
  state_ = State::none;
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(use_slices(false)));
  cancelled_ = false;
  const Result<std::vector<InputRange>> ranges = failed(encoder_->encode(inputs));
  if (!ranges.ok()) return ranges.error();
  inputs_.assign(inputs.begin(), inputs.end());
  state_ = State::done;
  return {};
}

Status Encoding::begin(std::span<const EncoderInput> inputs) {
  state_ = State::none;
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(use_slices(true)));
  cancelled_ = false;
  PUMICE_CHECK(failed(encoder_->open(inputs)));
  inputs_.assign(inputs.begin(), inputs.end());
  state_ = State::running;
  return {};
}

Status Encoding::check_cancelled() {
  if (!cancelled_ || state_ != State::running) return {};
  PUMICE_CHECK(slices_->wait());
  encoder_->runner().close_step();
  cancelled_ = false;
  state_ = State::none;
  return Error{Code::cancelled, "encoding was cancelled"};
}

Result<WorkSlice> Encoding::advance(double budget, const SubmitSync& sync) {
  PUMICE_CHECK(ready());
  return failed(slice(VK_NULL_HANDLE, budget, sync));
}

Result<WorkSlice> Encoding::record(VkCommandBuffer into, double budget) {
  PUMICE_CHECK(ready());
  return failed(slice(into, budget, {}));
}

Result<WorkSlice> Encoding::slice(VkCommandBuffer into, double budget, const SubmitSync& sync) {
  Runner& runner = encoder_->runner();
  PUMICE_CHECK(slices_->look());
  PUMICE_CHECK(check_cancelled());
  if (state_ == State::running && !runner.step_open() && !slices_->under_way()) state_ = State::done;
  WorkSlice result;
  result.report = slices_->report();
  result.report.dispatches = 0;
  const bool wanted = state_ == State::running && runner.step_open();
  PUMICE_TRY(const bool begun, wanted ? slices_->begin(budget, into) : Result<bool>(false));
  if (begun) {
    PUMICE_CHECK(runner.fill());
    PUMICE_CHECK(slices_->end(sync));
    result.report = slices_->report();
    result.largest = runner.largest_dispatch();
  } else if (!sync.empty()) {
    PUMICE_CHECK(model_->context().device->submit({}, sync));
  }
  result.active = state_ == State::running;
  return result;
}

Result<std::vector<float>> Encoding::read() {
  PUMICE_CHECK(ready());
  if (state_ == State::running && !encoder_->runner().step_open()) {
    PUMICE_CHECK(failed(slices_->wait()));
    state_ = State::done;
  }
  if (state_ != State::done) {
    return Error{Code::not_ready, "no inputs have been run to their end: nothing can be read"};
  }
  std::vector<float> all;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    PUMICE_TRY(const std::vector<float> rows, failed(encoder_->read(output(), i)));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

} // namespace pumice
