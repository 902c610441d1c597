#include "generate/resumable_generation.h"

namespace pumice {

Result<std::unique_ptr<ResumableGeneration>> ResumableGeneration::create(std::shared_ptr<const Model> model,
                                                                         EncoderDecoderOptions options,
                                                                         const GenerationOptions* prepared) {
  std::unique_ptr<ResumableGeneration> generation(new ResumableGeneration(std::move(model), options));
  generation->prepared_ = prepared != nullptr;
  if (prepared) generation->options_ = *prepared;
  PUMICE_CHECK(generation->make());
  return generation;
}

ResumableGeneration::~ResumableGeneration() {
  work_.end(session_);
}

Status ResumableGeneration::make() {
  return work_.make(*model_, session_, [this]() -> Status {
    PUMICE_TRY(session_, EncoderDecoder::create(model_, session_options_));
    return prepared_ ? session_->prepare(options_) : Status();
  });
}

// Inputs that were under way before an error are run again.
Status ResumableGeneration::ready() {
  if (!work_.broken()) return {};
  PUMICE_CHECK(make());
  return state_ == State::running ? failed(session_->begin(inputs_, options_)) : Status();
}

template <class T>
T ResumableGeneration::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) state_ = State::none;
  return work_.checked(std::move(result));
}

Status ResumableGeneration::stop() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(work_.slices().wait()));
  state_ = State::none;
  work_.forget_cancel();
  return failed(session_->end());
}

Status ResumableGeneration::start(std::vector<EncoderInput> inputs, GenerationOptions options) {
  PUMICE_CHECK(ready());
  if (!options.interrupt) options.interrupt = work_.interrupt();
  state_ = State::none;
  inputs_ = std::move(inputs);
  options_ = std::move(options);
  PUMICE_CHECK(failed(session_->begin(inputs_, options_)));
  state_ = State::running;
  return {};
}

Status ResumableGeneration::again(std::span<const size_t> indices, GenerationOptions options) {
  PUMICE_CHECK(ready());
  if (!options.interrupt) options.interrupt = work_.interrupt();
  state_ = State::none;
  std::vector<EncoderInput> some;
  for (const size_t index : indices) some.push_back(inputs_[index]);
  inputs_ = std::move(some);
  options_ = std::move(options);
  PUMICE_CHECK(failed(session_->again(indices, inputs_, options_)));
  state_ = State::running;
  return {};
}

void ResumableGeneration::finish() {
  texts_ = session_->take_texts();
  state_ = State::done;
}

Status ResumableGeneration::run() {
  PUMICE_CHECK(ready());
  if (state_ != State::running) return {};
  Status status = session_->run();
  state_ = State::none;
  PUMICE_CHECK(failed(std::move(status)));
  finish();
  return {};
}

Status ResumableGeneration::check_cancelled() {
  if (!work_.cancelled() || state_ != State::running) return {};
  PUMICE_CHECK(work_.slices().wait());
  PUMICE_CHECK(session_->end());
  work_.forget_cancel();
  return Error{Code::cancelled, "writing was cancelled"};
}

Result<SliceResult> ResumableGeneration::advance(double budget, const SubmitSync& sync) {
  PUMICE_CHECK(ready());
  return failed(slice(VK_NULL_HANDLE, budget, sync));
}

Result<SliceResult> ResumableGeneration::record(VkCommandBuffer into, double budget) {
  PUMICE_CHECK(ready());
  return failed(slice(into, budget, {}));
}

Result<SliceResult> ResumableGeneration::slice(VkCommandBuffer into, double budget, const SubmitSync& sync) {
  StageSlices& slices = work_.slices();
  PUMICE_CHECK(slices.look());
  PUMICE_CHECK(check_cancelled());
  if (state_ == State::running) {
    PUMICE_CHECK(session_->collect(slices));
    if (!session_->active()) finish();
  }
  const bool more = state_ == State::running;
  const auto fill = [&] { return session_->fill(slices); };
  SliceResult result;
  PUMICE_TRY(result.report, slices.run(more ? fill : std::function<Status()>(), budget, sync, into));
  if (more) result.largest = session_->largest_dispatch(slices);
  result.active = more;
  return result;
}

Status ResumableGeneration::discard() {
  PUMICE_CHECK(work_.discard_if_broken());
  PUMICE_CHECK(ready());
  work_.slices().discard();
  PUMICE_CHECK(failed(work_.slices().wait()));
  return state_ == State::running ? failed(session_->begin(inputs_, options_)) : Status();
}

Result<std::span<const std::vector<Hypothesis>>> ResumableGeneration::texts() {
  if (state_ == State::done) return std::span<const std::vector<Hypothesis>>(texts_);
  return Error{Code::not_ready, "no input has been run to its end: there is no text to read"};
}

} // namespace pumice
