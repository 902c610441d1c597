#include "generate/resumable_generation.h"

#include "step/warm_up.h"
#include "step/work/batch_work.h"

namespace pumice {

Result<std::unique_ptr<ResumableGeneration>> ResumableGeneration::create(std::shared_ptr<const Model> model,
                                                                         EncoderDecoderOptions options,
                                                                         const GenerationOptions& usual,
                                                                         const Making& making) {
  std::unique_ptr<ResumableGeneration> generation(new ResumableGeneration(std::move(model), options));
  generation->prepared_ = making.prepared;
  generation->options_ = usual;
  generation->compiling_threads_ = making.threads;
  PUMICE_CHECK(generation->make(making.progress));
  if (making.prepared && making.warm_up) PUMICE_CHECK(generation->warm_up(usual));
  return generation;
}

// Short texts of blank inputs, in small slices, like those of an application.
Status ResumableGeneration::warm_up(const GenerationOptions& usual) {
  if (!has_slices(*model_)) return {};
  GenerationOptions options = usual;
  options.config.max_tokens = 3;
  options.config.min_tokens = 0;
  PUMICE_TRY(const std::vector<std::vector<EncoderInput>> steps, blank_steps(session().encoder()));
  for (const std::vector<EncoderInput>& inputs : steps) {
    for (int round = 0; round < warm_up_rounds; ++round) {
      if (!options.terms.empty()) options.terms.resize(inputs.size());
      PUMICE_CHECK(start(inputs, options));
      for (bool more = true; more;) {
        PUMICE_TRY(const SliceResult result, slice({warm_up_slice_seconds}));
        more = result.active;
      }
    }
  }
  PUMICE_CHECK(stop());
  inputs_.clear();
  texts_.clear();
  options_ = usual; // what is made again after an error is prepared for these
  return {};
}

// Inputs that were under way before an error are run again.
Status ResumableGeneration::make_object(const Progress& progress) {
  PUMICE_TRY(object_, EncoderDecoder::create(model_, session_options_));
  if (prepared_) PUMICE_CHECK(session().prepare(options_, compiling_threads_, progress));
  return active() ? failed(session().begin(inputs_, options_)) : Status();
}

template <class T>
T ResumableGeneration::failed(T result) {
  if (!result.ok() && result.error().code == Code::cancelled) state_ = State::none;
  return checked(std::move(result));
}

Status ResumableGeneration::stop() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(failed(slicer_->wait()));
  state_ = State::none;
  forget_cancel();
  return failed(session().end());
}

void ResumableGeneration::set(std::vector<EncoderInput> inputs, GenerationOptions options) {
  state_ = State::none;
  inputs_ = std::move(inputs);
  options_ = std::move(options);
  if (!options_.interrupt) options_.interrupt = interrupt();
}

Status ResumableGeneration::begun(Status status) {
  PUMICE_CHECK(failed(std::move(status)));
  state_ = State::running;
  return {};
}

Status ResumableGeneration::start(std::vector<EncoderInput> inputs, GenerationOptions options) {
  PUMICE_CHECK(ready());
  set(std::move(inputs), std::move(options));
  return begun(session().begin(inputs_, options_));
}

Status ResumableGeneration::again(std::span<const size_t> indices, GenerationOptions options) {
  PUMICE_CHECK(ready());
  std::vector<EncoderInput> some;
  for (const size_t index : indices) some.push_back(inputs_[index]);
  set(std::move(some), std::move(options));
  return begun(session().again(indices, inputs_, options_));
}

void ResumableGeneration::take_texts() {
  texts_ = session().take_texts();
  state_ = State::done;
}

Status ResumableGeneration::run() {
  PUMICE_CHECK(ready());
  if (!active()) return {};
  Status status = session().run();
  state_ = State::none;
  PUMICE_CHECK(failed(std::move(status)));
  take_texts();
  return {};
}

Result<bool> ResumableGeneration::end() {
  if (!active()) return false;
  PUMICE_CHECK(slicer_->wait());
  PUMICE_CHECK(session().end());
  state_ = State::none;
  return true;
}

Status ResumableGeneration::collect() {
  if (!active()) return {};
  PUMICE_CHECK(session().collect(*slicer_));
  if (!session().active()) take_texts();
  return {};
}

Status ResumableGeneration::fill(Slice& slice) {
  return failed(session().fill(slice));
}

Status ResumableGeneration::restart() {
  slicer_->discard();
  PUMICE_CHECK(slicer_->wait());
  return active() ? failed(session().begin(inputs_, options_)) : Status();
}

Result<std::span<const std::vector<Hypothesis>>> ResumableGeneration::texts() {
  if (state_ == State::done) return std::span<const std::vector<Hypothesis>>(texts_);
  return Error{Code::not_ready, "no input has been run to its end: there is no text to read"};
}

} // namespace pumice
