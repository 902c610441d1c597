#include "recording/compile_kernels.h"

#include <set>
#include <utility>

namespace pumice {

namespace {

// The first dispatch of each kernel that has not run yet.
std::vector<const Dispatch*> new_kernels(const Pipelines& pipelines, const Plan& plan) {
  std::vector<const Dispatch*> found;
  std::set<std::pair<std::string, std::vector<uint32_t>>> seen;
  for (const PlannedDispatch& planned : plan.dispatches) {
    const Dispatch& dispatch = planned.dispatch;
    if (pipelines.compiled(dispatch.kernel, dispatch.constants)) continue;
    if (seen.emplace(dispatch.kernel, dispatch.constants).second) found.push_back(&dispatch);
  }
  return found;
}

} // namespace

Status compile_kernels(const DeviceContext& context, const Plan& plan, const BufferLookup& lookup) {
  const std::vector<const Dispatch*> kernels = new_kernels(*context.pipelines, plan);
  if (kernels.empty()) return {};
  const auto go_on = [&](size_t steps) -> Status { // a step to make each pipeline, and a step to run it
    const bool cancelled =
        context.interrupted() || (context.compiling && !context.compiling(steps / 2, kernels.size()));
    return cancelled ? Error{Code::cancelled, "compiling kernels was cancelled"} : Status();
  };
  Launcher launcher(context.device, context.pipelines);
  std::vector<Launch> launches;
  // All before the first one runs, which waits for the work in the queue.
  for (const Dispatch* kernel : kernels) {
    PUMICE_CHECK(go_on(launches.size()));
    PUMICE_TRY(Launch launch, launcher.prepare(*kernel, lookup));
    launch.groups = {0, 0, 0};
    launches.push_back(std::move(launch));
  }
  PUMICE_TRY(Commands commands, Commands::create(context.device, "compiling"));
  for (size_t i = 0; i < kernels.size(); ++i) {
    PUMICE_CHECK(go_on(kernels.size() + i));
    PUMICE_CHECK(commands.reset());
    PUMICE_CHECK(commands.begin());
    commands.barrier();
    launcher.record(commands, launches[i]);
    PUMICE_CHECK(commands.end());
    PUMICE_TRY(const TimelinePoint done, context.device->submit(commands.buffers()));
    PUMICE_CHECK(context.device->wait(done));
    context.pipelines->set_compiled(kernels[i]->kernel, kernels[i]->constants);
  }
  return go_on(2 * kernels.size());
}

} // namespace pumice
