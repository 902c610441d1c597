#include "step/work/resumable_encoder.h"

#include "step/warm_up.h"
#include "step/work/batch_work.h"

namespace pumice {

Result<std::unique_ptr<ResumableEncoder>>
ResumableEncoder::create(std::shared_ptr<const Model> model, EncoderOptions options, const Making& making) {
  std::unique_ptr<ResumableEncoder> encoding(
      new ResumableEncoder(std::move(model), std::move(options), making.prepared, making.threads));
  PUMICE_CHECK(encoding->make(making.progress));
  if (making.prepared && making.warm_up) PUMICE_CHECK(encoding->warm_up());
  return encoding;
}

// In small slices, like those of an application, because their start has a cost of its own. Not with the
// application's buffers, which are its own business until it runs something.
Status ResumableEncoder::warm_up() {
  if (options_.input.buffer || options_.output.buffer || !has_slices(*model_)) return {};
  PUMICE_TRY(const std::vector<std::vector<EncoderInput>> steps, blank_steps(encoder()));
  for (const std::vector<EncoderInput>& inputs : steps) {
    for (int round = 0; round < warm_up_rounds; ++round) {
      PUMICE_CHECK(begin(inputs));
      for (bool more = true; more;) {
        PUMICE_TRY(const SliceResult result, slice({warm_up_slice_seconds}));
        more = result.active;
      }
    }
  }
  inputs_.clear();
  return stop();
}

Status ResumableEncoder::make_object(const Progress& progress) {
  PUMICE_TRY(object_, Encoder::create(model_, options_));
  if (prepared_) PUMICE_CHECK(encoder().runner().prepare_all(compiling_threads_, progress));
  encoder().runner().set_interrupt(interrupt());
  columns_ = encoder().columns(output());
  return state_ == State::none ? Status() : failed(encode_again());
}

// Runs the inputs again that were lost: in slices, if not all of them were submitted.
Status ResumableEncoder::encode_again() {
  if (state_ != State::open) state_ = State::done;
  const Result<std::vector<InputRange>> ranges =
      state_ == State::open ? encoder().open(inputs_) : encoder().encode(inputs_);
  return ranges.ok() ? Status() : Status(ranges.error());
}

template <class T>
T ResumableEncoder::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) state_ = State::none;
  return checked(std::move(result));
}

// Forgets what was run, and a cancel() before this.
Status ResumableEncoder::begin_again(std::vector<EncoderInput> inputs) {
  Status ended = ready();
  if (ended.ok()) ended = stop();
  inputs_ = std::move(inputs); // ready() may have needed those before
  PUMICE_CHECK(ended);
  forget_cancel();
  return {};
}

Status ResumableEncoder::run(std::vector<EncoderInput> inputs) {
  PUMICE_CHECK(begin_again(std::move(inputs)));
  PUMICE_CHECK(failed(encoder().encode(inputs_)));
  state_ = State::done;
  return {};
}

Status ResumableEncoder::begin(std::vector<EncoderInput> inputs) {
  PUMICE_CHECK(begin_again(std::move(inputs)));
  PUMICE_CHECK(failed(encoder().open(inputs_)));
  state_ = State::open;
  return {};
}

Status ResumableEncoder::stop() {
  if (!broken()) {
    PUMICE_CHECK(failed(slicer_->wait()));
    encoder().runner().close_step();
  }
  state_ = State::none;
  return {};
}

Result<bool> ResumableEncoder::end() {
  if (!active()) return false;
  PUMICE_CHECK(stop());
  return true;
}

Status ResumableEncoder::collect() {
  if (state_ == State::open && !encoder().runner().step_open()) state_ = State::submitted;
  if (state_ == State::submitted && !slicer_->under_way()) state_ = State::done;
  return {};
}

Status ResumableEncoder::fill(Slice& slice) {
  if (state_ != State::open) return {};
  PUMICE_TRY(const std::optional<Completion> done, failed(encoder().runner().fill(slice)));
  if (done) state_ = State::submitted;
  return {};
}

Status ResumableEncoder::restart() {
  slicer_->discard();
  PUMICE_CHECK(slicer_->wait());
  if (!active()) return {};
  state_ = State::open;
  return failed(encode_again());
}

Result<std::vector<float>> ResumableEncoder::read() {
  PUMICE_CHECK(ready());
  if (state_ == State::submitted) {
    PUMICE_CHECK(failed(slicer_->wait()));
    state_ = State::done;
  }
  if (state_ != State::done) {
    return Error{Code::not_ready, "there is nothing to read yet: run the inputs to their end first"};
  }
  std::vector<float> all;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    PUMICE_TRY(const std::vector<float> rows, failed(encoder().read(output(), i)));
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

} // namespace pumice
