#include "step/work/resumable_batch.h"

namespace pumice {

namespace {

// Of step(): cancel() takes effect after such a slice, and its start costs nothing in comparison.
constexpr double longest_slice_seconds = 0.1;

} // namespace

Result<std::unique_ptr<ResumableBatch>>
ResumableBatch::create(std::shared_ptr<const Model> model, SessionOptions options, const Progress& progress) {
  std::unique_ptr<ResumableBatch> batch(new ResumableBatch(std::move(model), std::move(options)));
  PUMICE_CHECK(batch->make(progress));
  return batch;
}

Result<uint32_t> ResumableBatch::add(SequenceRequest request) {
  PUMICE_CHECK(ready());
  if (!active()) forget_cancel(); // there was nothing to cancel
  return object_->add(std::move(request));
}

void ResumableBatch::stop(uint32_t id) {
  if (active()) object_->stop_without_waiting(id);
}

Result<bool> ResumableBatch::end() {
  PUMICE_CHECK(wait_for_slices());
  const bool was_active = active();
  PUMICE_CHECK(object_->stop_all());
  return was_active;
}

Status ResumableBatch::wait() {
  PUMICE_CHECK(ready());
  return checked(wait_for_slices());
}

Status ResumableBatch::save(const std::filesystem::path& path, const Conversation& conversation) {
  PUMICE_CHECK(wait());
  return checked(object_->save(path, conversation));
}

Status ResumableBatch::save(const StateSink& sink, const Conversation& conversation) {
  PUMICE_CHECK(wait());
  return checked(object_->save(sink, conversation));
}

Result<Conversation> ResumableBatch::load(MappedFile file) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(checked(use_whole_steps()));
  return object_->load(std::move(file));
}

Status ResumableBatch::adopt(const Batch& from, uint32_t slot, const Conversation& conversation) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(checked(use_whole_steps()));
  const std::optional<uint32_t> place = object_->free_slot();
  return place ? checked(object_->copy(*place, from, slot, conversation)) : Status();
}

Status ResumableBatch::step() {
  if (!active()) return {};
  return checked(model_->upstream() ? run_step_in_stages() : run_step_in_slices());
}

Status ResumableBatch::run_step_in_slices() {
  const size_t steps = 1 + size_t{options_.steps_ahead};
  PUMICE_CHECK(use_slices());
  if (slicer_->recorded_under_way()) PUMICE_CHECK(slicer_->wait()); // what is submitted now must not overtake
  for (;;) {
    PUMICE_CHECK(slicer_->poll());
    PUMICE_CHECK(check_cancelled());
    Slice slice = slicer_->begin({longest_slice_seconds});
    if (slicer_->has_room()) PUMICE_CHECK(object_->fill(slice, steps));
    PUMICE_CHECK(slicer_->end(slice));
    PUMICE_CHECK(object_->wait_for_oldest());
    PUMICE_TRY(const bool finished, collect_step());
    if (finished) return {};
    PUMICE_CHECK(slicer_->wait()); // the step takes several slices
  }
}

// Several chunks of a prompt are under way at once, each in another stage.
Status ResumableBatch::run_step_in_stages() {
  PUMICE_CHECK(check_cancelled());
  PUMICE_CHECK(use_whole_steps());
  return run_whole_step();
}

} // namespace pumice
