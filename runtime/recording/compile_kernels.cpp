#include "recording/compile_kernels.h"

#include <algorithm>
#include <set>
#include <utility>

#include "recording/pipeline_maker.h"

namespace pumice {

namespace {

// The first dispatch of each kernel that has not run yet.
std::vector<const Dispatch*> new_kernels(const Pipelines& pipelines, std::span<const Plan* const> plans) {
  std::vector<const Dispatch*> found;
  std::set<std::pair<std::string, std::vector<uint32_t>>> seen;
  for (const Plan* plan : plans) {
    for (const PlannedDispatch& planned : plan->dispatches) {
      const Dispatch& dispatch = planned.dispatch;
      if (pipelines.compiled(dispatch.kernel, dispatch.constants)) continue;
      if (seen.emplace(dispatch.kernel, dispatch.constants).second) found.push_back(&dispatch);
    }
  }
  return found;
}

// Waits for the work in the queue.
Status wait_for_queue(Commands& commands) {
  PUMICE_CHECK(commands.begin());
  PUMICE_CHECK(commands.end());
  return commands.run_and_wait();
}

} // namespace

Status compile_kernels(const DeviceContext& context, std::span<const Plan* const> plans,
                       const BufferLookup& lookup, size_t threads, const Progress& progress) {
  const std::vector<const Dispatch*> kernels = new_kernels(*context.pipelines, plans);
  const Error cancelled = {Code::cancelled, "compiling kernels was cancelled"};
  if (kernels.empty()) return !progress || progress(0, 0) ? Status() : Status(cancelled);
  const auto go_on = [&](size_t steps) {
    return !context.interrupted() && (!context.compiling || context.compiling(steps / 2, kernels.size())) &&
           (!progress || progress(steps, 2 * kernels.size()));
  };
  PUMICE_TRY(Commands commands, Commands::create(context.device, "compiling"));
  // Who is told of compiling measures it, and what is in the queue is something else.
  if (context.compiling) PUMICE_CHECK(wait_for_queue(commands));
  // All before the first one runs, which waits for the work in the queue.
  PipelineMaker maker(context.pipelines, kernels, threads);
  PUMICE_CHECK(maker.finish([&] { return go_on(maker.made()); }));
  Launcher launcher(context.device, context.pipelines);
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (!go_on(kernels.size() + i)) return cancelled;
    PUMICE_TRY(Launch launch, launcher.prepare(*kernels[i], lookup));
    launch.groups = {0, 0, 0};
    PUMICE_CHECK(commands.reset());
    PUMICE_CHECK(commands.begin());
    commands.barrier();
    launcher.record(commands, launch);
    PUMICE_CHECK(commands.end());
    PUMICE_CHECK(commands.run_and_wait());
    context.pipelines->set_compiled(kernels[i]->kernel, kernels[i]->constants);
  }
  return go_on(2 * kernels.size()) ? Status() : Status(cancelled);
}

} // namespace pumice
