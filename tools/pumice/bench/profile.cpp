#include "bench/profile.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace pumice::command {

namespace {

Result<StepProfile> profile_tokens(Session& session, uint32_t tokens) {
  Runner& runner = session.runner();
  // In the middle of the context: a plan's estimates of attention are for half of it.
  const uint32_t context = session.size().context, first = (context - std::min(context, tokens)) / 2;
  std::vector<StepToken> rows;
  for (uint32_t i = 0; i < tokens; ++i)
    rows.push_back({i % runner.model().shape().vocabulary, first + i, 0, 0, false});
  rows.back().output = true;
  return profile_step(runner, tokens,
                      fmt::format("{} token{} from position {}", tokens, tokens == 1 ? "" : "s", first),
                      [&] { return runner.write_step(rows); });
}

} // namespace

Result<StepProfile> profile_step(Runner& runner, uint32_t tokens, std::string step,
                                 const std::function<Status()>& write) {
  std::vector<double> seconds;
  for (int run = 0; run < 2; ++run) { // the first one may compile
    PUMICE_CHECK(write());
    PUMICE_TRY(seconds, runner.time_dispatches(tokens));
  }
  PUMICE_TRY(const Plan* plan, runner.plan(tokens));
  StepProfile profile{std::move(step), static_cast<uint32_t>(seconds.size()), 0, {}};
  std::map<std::string, KernelTime> kernels;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Dispatch& dispatch = plan->dispatches[i].dispatch;
    KernelTime& kernel = kernels[dispatch.kernel];
    kernel.kernel = dispatch.kernel;
    kernel.seconds += seconds[i];
    kernel.flops += dispatch.flops;
    kernel.bytes += dispatch.bytes;
    ++kernel.dispatches;
    profile.seconds += seconds[i];
  }
  for (auto& [name, kernel] : kernels) profile.kernels.push_back(std::move(kernel));
  std::ranges::sort(profile.kernels, std::ranges::greater(), &KernelTime::seconds);
  return profile;
}

Result<std::vector<StepProfile>> profile_session(Session& session) {
  PUMICE_CHECK(session.reset());
  std::vector<StepProfile> profiles;
  for (const uint32_t tokens : {uint32_t{1}, session.size().chunk}) {
    PUMICE_TRY(StepProfile profile, profile_tokens(session, tokens));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

} // namespace pumice::command
