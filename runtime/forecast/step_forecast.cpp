#include "forecast/step_forecast.h"

#include <algorithm>
#include <cmath>
#include <map>

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

// A subgroup begins an instruction every so many cycles, because most need what the one before gave. Sums of
// tiles do not.
constexpr double issue_cycles = 4, issue_cycles_of_tiles = 1;
// Of the slots, those that are taken while subgroups wait for loads, for each other, and for the same unit.
constexpr double issue_share = 0.8;

// Operations on integers begin beside those on floats, and have fewer lanes.
double slots(const LaunchWork& work, const Chip& chip) {
  return std::max(work.instructions, work.integers * chip.integer_slots);
}

// Of tiles: a workgroup stages one, waits, multiplies it and waits, so what takes turns adds up. That
// workgroups of a core could overlap hides nearly none of it, by what an H200 has measured. Where a workgroup
// stages the next tile meanwhile, nothing between two waits depends on the other, and all but the longest
// could be hidden. Half of it is taken as hidden: no measurement says how much. The core with the most
// workgroups ends last.
Share tile_phases(const LaunchWork& work, const Chip& chip, double groups) {
  // Cycles of a pass: two waits for the workgroup, and the first results of each phase. Another workgroup of
  // the core has its turn meanwhile.
  const double waits = work.overlaps ? 150 : 300;
  const double most = std::ceil(groups / chip.cores) / work.groups / chip.clock; // of a core, in cycles
  const double instructions = most * slots(work, chip) / (issue_share * chip.lanes),
               shared = most * work.shared_bytes / chip.shared_bytes_per_cycle,
               waiting = work.trips * waits / chip.clock;
  Share share;
  share.take(instructions, Bound::instructions);
  share.take(shared, Bound::shared_memory);
  if (work.matrix_flops > 0) {
    const double matrices = most * work.matrix_flops / (chip.matrix_flops * chip.matrix_share);
    share.take(matrices, Bound::matrices);
    const double others = matrices + shared + instructions - share.seconds;
    share.seconds += work.overlaps ? others / 2 : others;
  }
  share.seconds += waiting;
  return share;
}

// Some of a launch's workgroups, all of them at once on the chip.
Share wave(const LaunchWork& work, const Chip& chip, double groups) {
  const double part = groups / work.groups, cores = std::min<double>(groups, chip.cores);
  const double waiting = work.memory_bytes > 0 ? chip.memory_seconds : chip.cache_seconds;
  Share share;
  share.take(part * work.memory_bytes / (chip.memory_bytes_per_second * chip.memory_share), Bound::memory);
  if (chip.cache_bytes_per_second > 0)
    share.take(part * work.cache_bytes / chip.cache_bytes_per_second, Bound::cache);
  if (work.tiles) {
    const Share phases = tile_phases(work, chip, groups);
    share.take(phases.seconds, phases.bound);
  }
  const double own_subgroups = groups / cores * std::ceil(work.invocations / chip.subgroup);
  const double each_in = work.tiles ? issue_cycles_of_tiles : issue_cycles;
  const double lanes =
      chip.cpu ? chip.lanes : std::min(issue_share * chip.lanes, own_subgroups * chip.subgroup / each_in);
  const double computing = part * slots(work, chip) / (cores * lanes * chip.clock);
  if (chip.loads_are_instructions) {
    share = {share.seconds + computing, computing > share.seconds ? Bound::instructions : share.bound};
  } else {
    share.take(computing, Bound::instructions);
  }
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
  double kept =
      std::min(chip.subgroups / subgroups, chip.registers / (work.registers * subgroups * chip.subgroup));
  if (work.shared_kept > 0) kept = std::min(kept, chip.shared_bytes / work.shared_kept);
  return std::max(1.0, std::floor(kept));
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
  case Bound::matrices:
    return "matrices";
  case Bound::shared_memory:
    return "shared memory";
  case Bound::launch:
    return "launch";
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
  const double beginning = barrier ? chip.barrier_seconds + first : chip.launch_seconds;
  if (beginning > launch.seconds) launch.bound = Bound::launch;
  launch.seconds += beginning;
  return launch;
}

StepForecast forecast_step(const Plan& plan, const Chip& chip, const StepExtent& extent) {
  StepForecast step;
  step.rows = extent.rows;
  for (const PlannedDispatch& planned : plan.dispatches) {
    const LaunchWork work = work_of(planned.dispatch, chip, extent);
    const LaunchForecast& launch = step.launches.emplace_back(forecast_launch(work, chip, planned.barrier));
    step.seconds += launch.seconds;
    step.memory_bytes += work.memory_bytes;
    step.flops += work.flops;
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

std::string prompt_text(const Plan& plan, const Chip& chip, const StepForecast& forecast,
                        uint32_t positions) {
  std::string text = fmt::format(
      "{}: a forecast of a prompt of {} tokens after {} others: {:.3f} ms, {:.1f} tokens/s; {:.1f} "
      "TFLOP/s, which is {:.0f} % of its {} ({:.1f})\n{} launches, {} barriers, {:.3f} MB from "
      "memory\n"
      "      kernel                   of                             workgroups   subgroups of  "
      "   GFLOP    memory  shared cache  FLOP a byte       time  limit          of the peak\n",
      chip.title, forecast.rows, positions - 1, forecast.seconds * 1e3, forecast.tokens_per_second(),
      forecast.flops / forecast.seconds / 1e12, 100 * forecast.peak_share(chip),
      chip.matrix_flops > 0 ? "matrices" : "lanes", chip.peak_flops() / 1e12, plan.dispatches.size(),
      forecast.barriers, forecast.memory_bytes / 1e6);
  struct Products {
    std::string variant;
    double flops = 0, cache_bytes = 0, seconds = 0, longest = 0;
    size_t launches = 0;
    Bound bound = Bound::memory; // of the longest launch
  };
  std::map<std::string, Products> classes;
  for (size_t i = 0; i < plan.dispatches.size(); ++i) {
    const PlannedDispatch& planned = plan.dispatches[i];
    const Dispatch& dispatch = planned.dispatch;
    const LaunchForecast& launch = forecast.launches[i];
    text += fmt::format("{:4} {} {:<24} {:<28} {:>6.0f} x {:<4.0f} {:>6.0f} a core {:>9.3f} {:>6.2f} MB "
                        "{:>10.2f} MB {:>12.1f} {:>8.2f} µs  {:<14} {:>6.1f} %\n",
                        i, launch.barrier ? "|" : " ", dispatch.kernel, dispatch.label, launch.work.groups,
                        launch.work.invocations, launch.subgroups, launch.work.flops / 1e9,
                        launch.work.memory_bytes / 1e6, launch.work.cache_bytes / 1e6,
                        launch.work.flops / std::max(launch.work.cache_bytes, 1.0), launch.seconds * 1e6,
                        to_string(launch.bound), 100 * launch.peak_share(chip));
    if (!planned.choice) continue;
    const VariantChoice& choice = plan.choices[*planned.choice];
    Products& all = classes[choice.shape_class];
    all.variant = choice.chosen;
    all.flops += launch.work.flops;
    all.cache_bytes += launch.work.cache_bytes;
    all.seconds += launch.seconds;
    ++all.launches;
    if (launch.seconds > all.longest) {
      all.longest = launch.seconds;
      all.bound = launch.bound;
    }
  }
  for (const auto& [name, all] : classes) {
    text += fmt::format(
        "{}: {}, {} launches, {:.2f} µs, {:.1f} FLOP a byte of the shared cache, {:.1f} % of the "
        "peak, limit: {}\n",
        name, all.variant, all.launches, all.seconds * 1e6, all.flops / std::max(all.cache_bytes, 1.0),
        100 * all.flops / all.seconds / chip.peak_flops(), to_string(all.bound));
  }
  return text;
}

} // namespace pumice
