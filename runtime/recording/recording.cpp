#include "recording/recording.h"

#include "kernel/sampling/sampling.h"

namespace pumice {

Result<Recording> Recording::create(const DeviceContext& context, const Plan& plan,
                                    const BufferLookup& lookup, PlanCopies copies) {
  PUMICE_TRY(PreparedPlan prepared, PreparedPlan::create(context, plan, lookup, std::move(copies)));
  Recording recording(context, std::move(prepared));
  PUMICE_TRY(recording.commands_, Commands::create(context.device, "step"));
  Commands& commands = recording.commands_;
  PUMICE_CHECK(commands.begin());
  commands.barrier(); // against the submissions before this one
  double seconds = 0;
  for (size_t i = 0; i < plan.dispatches.size(); ++i) {
    const double cost = plan.dispatches[i].seconds;
    const bool samples = !recording.sampling_ && begins_sampling(plan.dispatches[i].dispatch);
    const bool full = seconds > 0 && seconds + cost > longest_submission_seconds;
    if (full || (samples && i > 0)) {
      if (full) commands.barrier();
      PUMICE_CHECK(commands.end());
      recording.seconds_.push_back(seconds);
      PUMICE_CHECK(commands.begin());
      seconds = 0;
    }
    if (samples) recording.sampling_ = recording.seconds_.size();
    recording.plan_.record(commands, i);
    seconds += cost;
  }
  commands.host_barrier();
  PUMICE_CHECK(commands.end());
  recording.seconds_.push_back(seconds);
  return recording;
}

Result<TimelinePoint> Recording::submit(uint32_t steps, std::span<const VkCommandBuffer> before,
                                        const std::atomic<bool>* interrupt,
                                        const std::function<Status()>& before_sampling) const {
  const auto interrupted = [&] { return (interrupt && *interrupt) || (stop_ && *stop_); };
  const auto cancelled = [] { return Error{Code::cancelled, "a step was cancelled"}; };
  if (stop_ && *stop_) return cancelled();
  std::vector<VkCommandBuffer> batch(before.begin(), before.end());
  double seconds = 0;
  std::optional<TimelinePoint> last; // the last submission so far
  const auto submit_batch = [&]() -> Status {
    const Result<TimelinePoint> submitted = device_->submit(batch);
    if (!submitted.ok() && last) (void)device_->wait(*last); // the caller gets no point to wait for
    PUMICE_TRY(const TimelinePoint point, submitted);
    if ((interrupt || stop_) && last) PUMICE_CHECK(device_->wait(*last));
    if (interrupted()) {
      PUMICE_CHECK(device_->wait(point));
      return cancelled();
    }
    last = point;
    batch.clear();
    seconds = 0;
    return {};
  };
  for (uint32_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < seconds_.size(); ++i) {
      const bool waits = step == 0 && before_sampling && sampling_ == i;
      if (!batch.empty() && (waits || (seconds > 0 && seconds + seconds_[i] > longest_submission_seconds)))
        PUMICE_CHECK(submit_batch());
      if (waits) {
        const Status ready = before_sampling();
        if (!ready.ok() && last) (void)device_->wait(*last);
        PUMICE_CHECK(ready);
      }
      batch.push_back(commands_.buffers()[i]);
      seconds += seconds_[i];
    }
  }
  Result<TimelinePoint> submitted = device_->submit(batch);
  if (!submitted.ok() && last) (void)device_->wait(*last); // the caller gets no point to wait for
  return submitted;
}

} // namespace pumice
