#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "gpu/commands.h"
#include "recording/recording.h"
#include "recording/time_slicer.h"
#include "step/work/work.h"

namespace pumice {

// Work for a device that is not divided: a few launches, or copies.
struct WorkPiece {
  double seconds = 0; // expected
  std::function<Status(Commands&)> record;
};

// How the tuner uses the device.
class DeviceWork {
public:
  virtual ~DeviceWork() = default;
  // Runs pieces in this order, and waits for them. Returns the seconds that this took.
  virtual Result<double> run(std::span<const WorkPiece> pieces) = 0;
  // The most seconds that a piece should take.
  virtual double longest_piece() const = 0;
};

// Submits the work at once.
class DirectWork : public DeviceWork {
public:
  // With a lower limit others have the queue more often.
  explicit DirectWork(std::shared_ptr<Device> device, double longest_piece = longest_submission_seconds)
      : device_(std::move(device)), longest_piece_(longest_piece) {}
  Result<double> run(std::span<const WorkPiece> pieces) override;
  double longest_piece() const override;

private:
  std::shared_ptr<Device> device_;
  double longest_piece_; // seconds of a submission
};

// Leaves the submissions to another thread, which makes them in time slices.
class SlicedWork : public DeviceWork, public Work {
public:
  explicit SlicedWork(std::shared_ptr<Device> device) : slicer_(std::move(device)) {}

  // By the thread that measures. `cancelled` after cancel(), and an error of slice().
  Result<double> run(std::span<const WorkPiece> pieces) override;
  double longest_piece() const override;

  // By the other thread: submits as much of the work as is expected to fit the budget, or one piece. `active`
  // says whether run() waits for more. It records nothing: run() waits for what was submitted.
  Result<SliceResult> slice(const SliceRequest& request) override;
  Status discard() override { return {}; }
  // Ends run(), once what was submitted has ended.
  void cancel() override;

private:
  Result<SliceReport> make_slice(const SliceRequest& request);
  Status fill(const TimeSlicer::Slice& slice);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const WorkPiece> pieces_; // of run()
  std::shared_ptr<CostTable> costs_;  // of the pieces
  size_t next_ = 0;                   // piece that is in no slice yet
  bool waiting_ = false;              // run() waits for the pieces
  bool cancelled_ = false;
  Status status_;     // the first error of slice(), after which nothing runs any more
  double budget_ = 0; // of the last slice
  TimeSlicer slicer_;
};

} // namespace pumice
