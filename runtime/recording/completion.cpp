#include "recording/completion.h"

namespace pumice {

Result<bool> Completion::finished() const {
  if (const auto* submission = std::get_if<Submission>(&when_)) {
    PUMICE_TRY(const TimelinePoint reached, submission->device->completed());
    return reached >= submission->point;
  }
  if (const auto* deferred = std::get_if<std::shared_ptr<DeferredWork>>(&when_))
    return (*deferred)->finished();
  const auto* slice = std::get_if<Slice>(&when_);
  return !slice || slice->slices->finished(slice->number);
}

bool Completion::done_with(SliceNumber number) const {
  const auto* slice = std::get_if<Slice>(&when_);
  return !slice || slice->number <= number;
}

Status Completion::wait() const {
  if (const auto* submission = std::get_if<Submission>(&when_)) {
    return submission->device->wait(submission->point);
  }
  if (const auto* deferred = std::get_if<std::shared_ptr<DeferredWork>>(&when_)) return (*deferred)->wait();
  const auto* slice = std::get_if<Slice>(&when_);
  return !slice || slice->slices->finished(slice->number) ? Status() : slice->slices->wait(slice->number);
}

} // namespace pumice
