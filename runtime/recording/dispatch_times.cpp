#include "recording/dispatch_times.h"

#include "gpu/timestamps.h"
#include "recording/recording.h"

namespace pumice {

Result<std::vector<double>> time_dispatches(const DeviceContext& context, const Plan& plan,
                                            const BufferLookup& lookup) {
  const uint32_t count = static_cast<uint32_t>(plan.dispatches.size());
  PUMICE_TRY(Timestamps timestamps, Timestamps::create(context.device, count + 1));
  Launcher launcher(context.device, context.pipelines);
  PUMICE_TRY(Commands commands, Commands::create(context.device, "profile"));
  PUMICE_CHECK(commands.begin());
  timestamps.reset(commands);
  commands.barrier();
  timestamps.write(commands, 0);
  double expected = 0; // of the submission so far
  for (uint32_t i = 0; i < count; ++i) {
    const Dispatch& dispatch = plan.dispatches[i].dispatch;
    const double seconds = context.profile.speed.seconds(dispatch);
    if (expected > 0 && expected + seconds > longest_submission_seconds) {
      PUMICE_CHECK(commands.end());
      PUMICE_CHECK(commands.begin());
      expected = 0;
    }
    PUMICE_CHECK(launcher.record(commands, dispatch, lookup));
    commands.barrier();
    timestamps.write(commands, i + 1);
    expected += seconds;
  }
  timestamps.finish(commands);
  commands.host_barrier();
  PUMICE_CHECK(commands.end());
  TimelinePoint done;
  for (const VkCommandBuffer& buffer : commands.buffers()) {
    const Result<TimelinePoint> submitted = context.device->submit(std::span(&buffer, 1));
    if (!submitted.ok()) (void)context.device->wait(done); // the buffers before it may be running
    PUMICE_TRY(done, submitted);
  }
  PUMICE_CHECK(context.device->wait(done));
  const std::vector<double> points = timestamps.read();
  std::vector<double> seconds;
  for (uint32_t i = 0; i < count; ++i) seconds.push_back(points[i + 1] - points[i]);
  return seconds;
}

} // namespace pumice
