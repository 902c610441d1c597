#include "forecast/step_forecast.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace pumice {

namespace {

struct Share {
  double seconds = 0;
  Bound bound = Bound::memory;

  void take(double more, Bound by) {
    if (more <= seconds) return;
    seconds = more;
    bound = by;
  }
};

// A subgroup begins an instruction every so many cycles, because most need what the one before gave.
constexpr double issue_cycles = 4;
// Of the slots, those that are taken while subgroups wait for loads, for each other, and for the same unit.
constexpr double issue_share = 0.8;

// Some of a launch's workgroups, all of them at once on the chip.
Share wave(const LaunchWork& work, const Chip& chip, double groups) {
  const double part = groups / work.groups, cores = std::min<double>(groups, chip.cores);
  const double waiting = work.memory_bytes > 0 ? chip.memory_seconds : chip.cache_seconds;
  Share share;
  share.take(part * work.memory_bytes / (chip.memory_bytes_per_second * chip.memory_share), Bound::memory);
  if (chip.cache_bytes_per_second > 0)
    share.take(part * work.cache_bytes / chip.cache_bytes_per_second, Bound::cache);
  const double own_subgroups = groups / cores * std::ceil(work.invocations / chip.subgroup);
  const double lanes = chip.cpu
                           ? chip.lanes
                           : std::min(issue_share * chip.lanes, own_subgroups * chip.subgroup / issue_cycles);
  share.take(part * work.instructions / (cores * lanes * chip.clock), Bound::instructions);
  share.take(work.trips * waiting, Bound::latency);
  // What is under way cannot come faster than it can be asked for.
  if (waiting > 0)
    share.take(part * work.memory_bytes / (groups * work.invocations * work.flight_bytes) * waiting,
               Bound::latency);
  return share;
}

double resident_groups(const LaunchWork& work, const Chip& chip) {
  if (chip.cpu) return 1;
  const double subgroups = std::ceil(work.invocations / chip.subgroup);
  const double by_registers = chip.registers / (work.registers * subgroups * chip.subgroup);
  return std::max(1.0, std::floor(std::min(chip.subgroups / subgroups, by_registers)));
}

} // namespace

std::string_view to_string(Bound bound) {
  switch (bound) {
  case Bound::memory:
    return "memory";
  case Bound::cache:
    return "cache";
  case Bound::instructions:
    return "instructions";
  case Bound::latency:
    return "latency";
  }
  return "";
}

LaunchForecast forecast_launch(const LaunchWork& work, const Chip& chip, bool barrier) {
  LaunchForecast launch;
  launch.work = work;
  launch.barrier = barrier;
  const double kept = resident_groups(work, chip), at_once = std::min(work.groups, kept * chip.cores);
  launch.subgroups =
      std::min(kept, std::ceil(work.groups / chip.cores)) * std::ceil(work.invocations / chip.subgroup);
  launch.waves = work.groups / (kept * chip.cores);
  launch.flight_bytes = at_once * work.invocations * work.flight_bytes;
  const double whole = std::floor(work.groups / at_once), rest = work.groups - whole * at_once;
  const Share full = wave(work, chip, at_once);
  launch.seconds = whole * full.seconds;
  launch.bound = full.bound;
  if (rest > 0) launch.seconds += wave(work, chip, rest).seconds;
  // Behind a barrier nothing is under way yet: the first load is waited for.
  const double first = work.memory_bytes > 0 ? chip.memory_seconds : chip.cache_seconds;
  launch.seconds += barrier ? chip.barrier_seconds + first : chip.launch_seconds;
  return launch;
}

StepForecast forecast_step(const Plan& plan, const Chip& chip, uint32_t positions) {
  StepForecast step;
  for (const PlannedDispatch& planned : plan.dispatches) {
    const LaunchWork work = work_of(planned.dispatch, chip, positions);
    const LaunchForecast& launch = step.launches.emplace_back(forecast_launch(work, chip, planned.barrier));
    step.seconds += launch.seconds;
    step.memory_bytes += work.memory_bytes;
    step.barriers += planned.barrier;
  }
  step.memory_seconds = step.memory_bytes / chip.memory_bytes_per_second;
  return step;
}

std::string forecast_text(const Plan& plan, const Chip& chip, const StepForecast& forecast,
                          uint32_t positions) {
  std::string text =
      fmt::format("{}: a forecast of one token after {} others: {:.3f} ms, {:.1f} tokens/s; its memory "
                  "allows {:.1f}, of which this is "
                  "{:.0f} %\n{} launches, {} barriers, {:.3f} MB of weights, keys and values\n"
                  "      kernel                   of                             workgroups   subgroups of  "
                  "waves  in flight    bytes  "
                  "     instructions       time  limit\n",
                  chip.title, positions - 1, forecast.seconds * 1e3, forecast.tokens_per_second(),
                  forecast.most_tokens_per_second(), 100 * forecast.memory_seconds / forecast.seconds,
                  plan.dispatches.size(), forecast.barriers, forecast.memory_bytes / 1e6);
  for (size_t i = 0; i < plan.dispatches.size(); ++i) {
    const Dispatch& dispatch = plan.dispatches[i].dispatch;
    const LaunchForecast& launch = forecast.launches[i];
    text += fmt::format(
        "{:4} {} {:<24} {:<28} {:>6.0f} x {:<4.0f} {:>6.0f} a core {:>6.2f} {:>7.1f} KB {:>10.3f} MB "
        "{:>10.3f} M {:>8.2f} µs  {}\n",
        i, launch.barrier ? "|" : " ", dispatch.kernel, dispatch.label, launch.work.groups,
        launch.work.invocations, launch.subgroups, launch.waves, launch.flight_bytes / 1e3,
        std::max(launch.work.memory_bytes, launch.work.memory_bytes > 0 ? 0 : launch.work.cache_bytes) / 1e6,
        launch.work.instructions / 1e6, launch.seconds * 1e6, to_string(launch.bound));
  }
  return text;
}

} // namespace pumice
