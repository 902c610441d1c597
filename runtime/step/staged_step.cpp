#include "step/staged_step.h"

#include "step/runner.h"

namespace pumice {

StagedStep::StagedStep(std::vector<std::shared_ptr<Runner>> stages, StepRows rows, bool composed)
    : stages_(std::move(stages)), rows_(std::move(rows)), composed_(composed) {
  const auto values = std::as_bytes(std::span(rows_.values));
  bytes_.assign(values.begin(), values.end());
}

Result<bool> StagedStep::fill(Slice& slice) {
  for (; stage_ < stages_.size(); ++stage_) {
    if (!stages_[stage_]) continue; // what it receives goes on
    if (!open_) PUMICE_CHECK(slice.named(stage_, open()));
    if (!done_) {
      PUMICE_TRY(const TimeSlicer::Slice* const here, slice.enter(stage_));
      if (!here) return false;
      PUMICE_TRY(done_, slice.named(stage_, stages_[stage_]->fill_here(*here)));
      if (!done_) return false;
    }
    PUMICE_TRY(const bool finished, done_->finished());
    if (!finished) return false;
    PUMICE_CHECK(slice.named(stage_, close_and_read()));
  }
  return true;
}

Status StagedStep::open() {
  Runner& runner = *stages_[stage_];
  PUMICE_CHECK(runner.write_packed(rows_));
  PUMICE_CHECK(runner.write_received(rows_, {bytes_, {}}));
  PUMICE_CHECK(runner.open_here(rows_.tokens));
  open_ = true;
  return {};
}

Status StagedStep::close_and_read() {
  Runner& runner = *stages_[stage_];
  open_ = false;
  done_.reset();
  bytes_.resize(runner.sent_bytes(rows_.tokens));
  return runner.read_sent(rows_.tokens, bytes_);
}

void StagedStep::close() {
  if (open_) stages_[stage_]->close_step();
}

double StagedStep::largest_dispatch(const Slicer& slicer) const {
  const bool there = stage_ < stages_.size() && stages_[stage_];
  return there ? stages_[stage_]->largest_here(slicer.at(stage_)) : 0;
}

} // namespace pumice
