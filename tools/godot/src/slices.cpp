#include "slices.h"

#include <algorithm>
#include <atomic>

#include "engine.h"

namespace godot {

namespace {

std::atomic<int> active_nodes = 0; // share the time of a frame

} // namespace

Slices::End Slices::run(pumice_work* work, float budget_us, const Start& start) {
  {
    const std::lock_guard lock(mutex_);
    if (leaving_) return {PUMICE_CANCELLED, "the node was freed"};
    work_ = work;
  }
  pumice_error error{};
  End end;
  end.status = start(&error);
  end.message = error.message;
  std::unique_lock lock(mutex_);
  if (!end.failed() && leaving_) {
    pumice_work_cancel(work); // what leave() cancelled may not have begun then
    end = {PUMICE_CANCELLED, "the node was freed"};
  } else if (!end.failed() && budget_us > 0) {
    ++active_nodes;
    budget_us_ = budget_us;
    end_ = {PUMICE_CANCELLED, "the node was freed"};
    active_ = true;
    changed_.wait(lock, [this] { return !active_ || leaving_; });
    active_ = false;
    --active_nodes;
    end = end_;
  }
  work_ = nullptr;
  return end;
}

void Slices::advance() {
  const std::lock_guard lock(mutex_);
  if (!active_) return;
  pumice_slice slice{};
  slice.struct_size = sizeof slice;
  pumice_error error;
  const float budget = budget_us_ / static_cast<float>(std::max(1, active_nodes.load()));
  const pumice_status status = pumice_work_advance(work_, budget, nullptr, &slice, &error);
  if (status == PUMICE_OK && slice.active) return;
  end_ = {status, error.message};
  active_ = false;
  changed_.notify_all();
}

void Slices::cancel() {
  const std::lock_guard lock(mutex_);
  if (work_) pumice_work_cancel(work_);
}

void Slices::leave() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
  if (work_) pumice_work_cancel(work_);
  changed_.notify_all();
}

float frame_budget(float asked_us) {
  const bool headless = Variant::singleton("DisplayServer").call("get_name").text() == "headless";
  return headless ? 0 : asked_us;
}

} // namespace godot
