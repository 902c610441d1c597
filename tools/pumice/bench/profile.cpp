#include "bench/profile.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct KernelTime {
  double seconds = 0;
  double flops = 0;
  double bytes = 0;
  uint32_t dispatches = 0;
};

Status print_step(Session& session, uint32_t tokens) {
  Runner& runner = session.runner();
  // In the middle of the context: a plan's estimates of attention are for half of it.
  const uint32_t context = session.size().context, first = (context - std::min(context, tokens)) / 2;
  std::vector<StepToken> rows;
  for (uint32_t i = 0; i < tokens; ++i)
    rows.push_back({i % runner.model().shape().vocabulary, first + i, 0, 0, false});
  rows.back().output = true;
  return print_kernel_times(runner, tokens,
                            fmt::format("{} token{} from position {}", tokens, tokens == 1 ? "" : "s", first),
                            [&] { return runner.write_step(rows); });
}

} // namespace

Status print_kernel_times(Runner& runner, uint32_t tokens, const std::string& what,
                          const std::function<Status()>& write) {
  std::vector<double> seconds;
  for (int run = 0; run < 2; ++run) { // the first one may compile
    PUMICE_CHECK(write());
    PUMICE_TRY(seconds, runner.time_dispatches(tokens));
  }
  PUMICE_TRY(const Plan* plan, runner.plan(tokens));
  std::map<std::string, KernelTime> kernels;
  double total = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Dispatch& dispatch = plan->dispatches[i].dispatch;
    KernelTime& kernel = kernels[dispatch.kernel];
    kernel.seconds += seconds[i];
    kernel.flops += dispatch.flops;
    kernel.bytes += dispatch.bytes;
    ++kernel.dispatches;
    total += seconds[i];
  }
  std::vector<std::pair<std::string, KernelTime>> sorted(kernels.begin(), kernels.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  print_result(
      fmt::format("\n{}: {:.3f} ms in {} dispatches, run one by one\n", what, total * 1e3, seconds.size()));
  print_result(fmt::format("{:<28} {:>10} {:>10} {:>7} {:>10} {:>8}\n", "kernel", "dispatches", "ms", "share",
                           "GFLOP/s", "GB/s"));
  for (const auto& [name, kernel] : sorted) {
    print_result(fmt::format("{:<28} {:>10} {:>10.3f} {:>6.1f}% {:>10.2f} {:>8.2f}\n", name,
                             kernel.dispatches, kernel.seconds * 1e3, 100 * kernel.seconds / total,
                             kernel.flops / kernel.seconds / 1e9, kernel.bytes / kernel.seconds / 1e9));
  }
  return {};
}

Status print_profile(Session& session) {
  PUMICE_CHECK(session.reset());
  PUMICE_CHECK(print_step(session, 1));
  return print_step(session, session.size().chunk);
}

} // namespace pumice::command
