#include "recording/dispatch_times.h"

#include "gpu/timestamps.h"

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
  for (uint32_t i = 0; i < count; ++i) {
    PUMICE_CHECK(launcher.record(commands, plan.dispatches[i].dispatch, lookup));
    commands.barrier();
    timestamps.write(commands, i + 1);
  }
  timestamps.finish(commands);
  commands.host_barrier();
  PUMICE_CHECK(commands.end());
  PUMICE_TRY(const TimelinePoint done, context.device->submit(commands.buffers()));
  PUMICE_CHECK(context.device->wait(done));
  const std::vector<double> points = timestamps.read();
  std::vector<double> seconds;
  for (uint32_t i = 0; i < count; ++i) seconds.push_back(points[i + 1] - points[i]);
  return seconds;
}

} // namespace pumice
