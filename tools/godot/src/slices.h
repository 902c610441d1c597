// What a node computes in slices: its worker begins the work and waits, and the main thread advances it in
// each frame.
#pragma once

#include <pumice/pumice.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

namespace godot {

class Slices {
public:
  struct End {
    pumice_status status = PUMICE_OK;
    std::string message;
    bool failed() const { return status != PUMICE_OK; }
  };
  // On the worker: `start`, and then to the end of the work, with so many microseconds of each frame, which
  // all nodes share. Without a budget, `start` computes everything.
  using Start = std::function<pumice_status(pumice_error* error)>;
  End run(pumice_work* work, float budget_us, const Start& start);
  // On the main thread, in each frame.
  void advance();
  // From any thread, until the object whose work it is goes.
  void cancel();
  // Cancels, and nothing is waited for any more.
  void leave();

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  // With mutex_:
  pumice_work* work_ = nullptr; // under way
  bool active_ = false;         // it is the main thread's
  bool leaving_ = false;
  float budget_us_ = 0;
  End end_;
};

// Of a node's settings: 0 where there is no display, and so no frames to keep.
float frame_budget(float asked_us);

} // namespace godot
