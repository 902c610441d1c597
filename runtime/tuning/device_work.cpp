#include "tuning/device_work.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/guarded.h"

namespace pumice {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

Result<double> DirectWork::run(std::span<const WorkPiece> pieces) {
  double took = 0;
  PUMICE_TRY(Commands commands, Commands::create(device_, "tuning"));
  for (size_t next = 0; next < pieces.size();) {
    PUMICE_CHECK(commands.reset());
    PUMICE_CHECK(commands.begin());
    commands.barrier();
    double expected = 0;
    do {
      PUMICE_CHECK(pieces[next].record(commands));
      commands.host_barrier();
      expected += pieces[next++].seconds;
    } while (next < pieces.size() && expected + pieces[next].seconds <= longest_piece_);
    PUMICE_CHECK(commands.end());
    const auto start = std::chrono::steady_clock::now();
    PUMICE_CHECK(commands.run_and_wait());
    took += seconds_since(start);
  }
  return took;
}

double DirectWork::longest_piece() const {
  return longest_piece_;
}

Result<double> SlicedWork::run(std::span<const WorkPiece> pieces) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> seconds;
  for (const WorkPiece& piece : pieces) seconds.push_back(piece.seconds);
  std::unique_lock lock(mutex_);
  costs_ = std::make_shared<CostTable>(seconds);
  pieces_ = pieces;
  next_ = 0;
  waiting_ = !pieces.empty() && !cancelled_ && status_.ok();
  changed_.wait(lock, [this] { return !waiting_ || cancelled_; });
  // The pieces' memory must outlive what was submitted of them.
  Status ended = slicer_.wait();
  waiting_ = false;
  pieces_ = {};
  if (cancelled_) return Error{Code::cancelled, "measuring was cancelled"};
  PUMICE_CHECK(status_);
  PUMICE_CHECK(ended);
  return seconds_since(start);
}

double SlicedWork::longest_piece() const {
  std::lock_guard lock(mutex_);
  return budget_;
}

Result<SliceResult> SlicedWork::slice(const SliceRequest& request) {
  if (request.into) {
    return Error{Code::unsupported, "a measurement records nothing into a command buffer: let it submit its "
                                    "slices itself"};
  }
  std::lock_guard lock(mutex_);
  budget_ = request.budget;
  SliceResult result;
  Status status = slicer_.poll();
  if (status.ok() && waiting_ && next_ == pieces_.size() && !slicer_.under_way()) waiting_ = false;
  if (status.ok()) {
    const Result<SliceReport> report = guarded([&] { return make_slice(request); });
    if (report.ok()) result.report = *report;
    if (!report.ok()) status = report.error();
  }
  if (costs_) result.largest = slicer_.predictor().dispatch(costs_->largest());
  if (status_.ok()) status_ = status;
  if (!status.ok()) waiting_ = false;
  changed_.notify_all();
  PUMICE_CHECK(status);
  result.active = waiting_;
  return result;
}

Result<SliceReport> SlicedWork::make_slice(const SliceRequest& request) {
  std::optional<TimeSlicer::Slice> slice;
  if (waiting_ && !cancelled_ && next_ < pieces_.size()) {
    PUMICE_TRY(slice, slicer_.begin(request.budget));
  }
  if (slice) PUMICE_CHECK(fill(*slice));
  return slicer_.end(slice, request.sync);
}

Status SlicedWork::fill(const TimeSlicer::Slice& slice) {
  for (; next_ < pieces_.size() && slice.fits(*costs_, next_); ++next_) {
    slice.add(costs_, next_);
    PUMICE_CHECK(pieces_[next_].record(slice.commands()));
    slice.commands().host_barrier();
  }
  return {};
}

void SlicedWork::cancel() {
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  changed_.notify_all();
}

} // namespace pumice
