#include "step/work/resumable_batch.h"

#include <fmt/format.h>

#include "step/warm_up.h"

namespace pumice {

namespace {

// Of step(): cancel() takes effect after such a slice, and its start costs nothing in comparison.
constexpr double longest_slice_seconds = 0.1;

} // namespace

Result<std::unique_ptr<ResumableBatch>>
ResumableBatch::create(std::shared_ptr<const Model> model, SessionOptions options, const Progress& progress) {
  std::unique_ptr<ResumableBatch> batch(new ResumableBatch(std::move(model), options));
  PUMICE_CHECK(batch->make(progress));
  return batch;
}

ResumableBatch::~ResumableBatch() {
  work_.end(batch_);
}

Status ResumableBatch::make(const Progress& progress) {
  whole_ = false;
  return work_.make(*model_, batch_, [&]() -> Status {
    PUMICE_TRY(batch_, Batch::create(model_, options_));
    PUMICE_CHECK(batch_->runner().prepare_all(options_.compiling_threads, progress));
    if (model_->upstream()) batch_->runner().set_interrupt(work_.interrupt());
    const bool warms_up = options_.preparation == Preparation::warmed_up && has_slices(*model_);
    return warms_up ? warm_up(*batch_, work_.slices()) : Status();
  });
}

Status ResumableBatch::ready() {
  return work_.broken() ? make() : Status();
}

Result<uint32_t> ResumableBatch::add(SequenceRequest request) {
  PUMICE_CHECK(ready());
  if (!active()) work_.forget_cancel(); // there was nothing to cancel
  return batch_->add(std::move(request));
}

void ResumableBatch::drop(uint32_t id) {
  if (active()) batch_->finish(id);
}

Status ResumableBatch::check_cancelled() {
  if (!work_.cancelled()) return {};
  PUMICE_CHECK(work_.slices().wait());
  const bool was_active = active();
  PUMICE_CHECK(batch_->drop_all());
  work_.forget_cancel();
  return was_active ? Status(Error{Code::cancelled, "generating was cancelled"}) : Status();
}

// Takes the tokens of the next step that has finished. False: none has.
Result<bool> ResumableBatch::collect() {
  PUMICE_TRY(const auto tokens, batch_->collect());
  if (tokens) received_.insert(received_.end(), tokens->begin(), tokens->end());
  return tokens.has_value();
}

// The same for all steps that have finished.
Status ResumableBatch::collect_all() {
  for (bool more = true; more;) {
    PUMICE_TRY(more, collect());
  }
  return {};
}

std::optional<BatchToken> ResumableBatch::take() {
  if (received_.empty()) return {};
  BatchToken token = std::move(received_.front());
  received_.pop_front();
  return token;
}

Result<SliceResult> ResumableBatch::advance(double budget, const SubmitSync& sync) {
  PUMICE_CHECK(check_slices(*model_, "run whole steps"));
  PUMICE_CHECK(ready());
  return work_.checked(slice(VK_NULL_HANDLE, budget, sync));
}

Result<SliceResult> ResumableBatch::record(VkCommandBuffer into, double budget) {
  PUMICE_CHECK(check_slices(*model_, "run whole steps"));
  PUMICE_CHECK(ready());
  recorded_ = true;
  return work_.checked(slice(into, budget, {}));
}

Result<SliceResult> ResumableBatch::slice(VkCommandBuffer into, double budget, const SubmitSync& sync) {
  StageSlices& slices = work_.slices();
  PUMICE_CHECK(use_slices(true));
  PUMICE_CHECK(slices.look());
  PUMICE_CHECK(collect_all());
  PUMICE_CHECK(check_cancelled());
  const bool running = active();
  const auto fill = [&] { return batch_->fill(slices); };
  SliceResult result;
  PUMICE_TRY(result.report, slices.run(running ? fill : std::function<Status()>(), budget, sync, into));
  if (running) result.largest = batch_->runner().largest_dispatch(slices);
  result.active = running;
  return result;
}

Status ResumableBatch::step() {
  if (!active()) return {};
  return work_.checked(model_->upstream() ? run_whole_step() : run_step());
}

Status ResumableBatch::run_step() {
  StageSlices& slices = work_.slices();
  const size_t steps = 1 + size_t{options_.steps_ahead};
  if (recorded_) PUMICE_CHECK(slices.wait()); // what is submitted now must not overtake them
  recorded_ = false;
  for (;;) {
    PUMICE_CHECK(slices.look());
    PUMICE_CHECK(check_cancelled());
    const auto fill = [&] { return batch_->fill(slices, steps); };
    const Result<SliceReport> filled = slices.run(fill, longest_slice_seconds);
    if (!filled.ok()) return filled.error();
    PUMICE_CHECK(batch_->wait_for_oldest());
    PUMICE_TRY(const bool finished, collect());
    if (finished) return {};
    PUMICE_CHECK(slices.wait()); // the step takes several slices
  }
}

// With stages: steps that are under way in the other manner end first, or start again.
Status ResumableBatch::use_slices(bool wanted) {
  if (wanted != whole_) return {};
  if (whole_) {
    PUMICE_CHECK(check_cancelled());
    PUMICE_CHECK(batch_->wait());
    PUMICE_CHECK(collect_all());
  } else {
    PUMICE_CHECK(work_.slices().wait());
    PUMICE_CHECK(restart());
  }
  whole_ = !wanted;
  return {};
}

// Several chunks of a prompt are under way at once, each in another stage.
Status ResumableBatch::run_whole_step() {
  PUMICE_CHECK(check_cancelled());
  PUMICE_CHECK(use_slices(false));
  const Result<std::span<const BatchToken>> tokens = batch_->step();
  if (!tokens.ok()) {
    // Between its submissions it sees the interrupt, which has no end by itself.
    return tokens.error().code == Code::cancelled && work_.cancelled() ? check_cancelled()
                                                                       : Status(tokens.error());
  }
  received_.insert(received_.end(), tokens->begin(), tokens->end());
  return {};
}

Status ResumableBatch::discard() {
  PUMICE_CHECK(work_.discard_if_broken());
  PUMICE_CHECK(ready());
  return work_.checked(restart());
}

Status ResumableBatch::restart() {
  StageSlices& slices = work_.slices();
  if (whole_) return {};
  PUMICE_CHECK(slices.look());
  PUMICE_CHECK(collect_all());
  const bool known = batch_->forget_discarded(slices);
  slices.discard();
  PUMICE_CHECK(slices.wait());
  if (known) PUMICE_CHECK(collect_all());
  return batch_->abandon();
}

} // namespace pumice
