#include "plan/recording.h"

namespace pumice {

namespace {

// Drivers reset a device after about two seconds on one submission. Estimates are rough, hence the distance.
constexpr double longest_submission_seconds = 0.3;

// A guess on the slow side.
double estimated_seconds(const Dispatch& dispatch, const Capabilities& device) {
  const double flops_per_second = device.is_cpu() ? 20e9 : 500e9;
  const double bytes_per_second = device.is_cpu() ? 5e9 : 30e9;
  return dispatch.flops / flops_per_second + dispatch.bytes / bytes_per_second;
}

} // namespace

Result<Recording> Recording::create(const DeviceContext& context, const Plan& plan,
                                    const BufferLookup& lookup) {
  Recording recording(context);
  PUMICE_TRY(recording.commands_, Commands::create(context.device));
  Commands& commands = recording.commands_;
  PUMICE_CHECK(commands.begin());
  commands.barrier(); // against the submissions before this one
  double seconds = 0;
  for (const PlannedDispatch& planned : plan.dispatches) {
    const double cost = estimated_seconds(planned.dispatch, context.device->capabilities());
    if (seconds > 0 && seconds + cost > longest_submission_seconds) {
      commands.barrier();
      PUMICE_CHECK(commands.end());
      recording.seconds_.push_back(seconds);
      PUMICE_CHECK(commands.begin());
      seconds = 0;
    }
    if (planned.barrier) commands.barrier();
    PUMICE_CHECK(recording.launcher_.record(commands, planned.dispatch, lookup));
    seconds += cost;
  }
  commands.barrier();
  PUMICE_CHECK(commands.end());
  recording.seconds_.push_back(seconds);
  return recording;
}

Result<uint64_t> Recording::submit(uint32_t steps, std::span<const VkCommandBuffer> before) const {
  std::vector<VkCommandBuffer> together(before.begin(), before.end());
  double seconds = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    for (size_t i = 0; i < seconds_.size(); ++i) {
      if (seconds > 0 && seconds + seconds_[i] > longest_submission_seconds) {
        PUMICE_TRY(const uint64_t value, device_->submit(together));
        (void)value;
        together.clear();
        seconds = 0;
      }
      together.push_back(commands_.buffers()[i]);
      seconds += seconds_[i];
    }
  }
  return device_->submit(together);
}

} // namespace pumice
