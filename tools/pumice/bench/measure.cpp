#include "bench/measure.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

#include <fmt/format.h>

#include "bench/statistics.h"
#include "bench/turns.h"
#include "loading/open_device.h"
#include "process/this_process.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

// After this, a test is measured even if its times are not stable.
constexpr uint32_t least_warm_up = 3;  // runs
constexpr double longest_warm_up = 30; // seconds

} // namespace

std::vector<uint32_t> random_tokens(uint32_t count, uint32_t vocabulary) {
  std::mt19937 generator(1);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(generator() % vocabulary);
  return tokens;
}

void share_time(std::vector<double>& token_seconds, uint32_t steps_per_submit) {
  for (size_t first = 0; first < token_seconds.size(); first += steps_per_submit) {
    const auto group = std::span(token_seconds).subspan(first);
    const auto some = group.first(std::min<size_t>(group.size(), steps_per_submit));
    const double sum = std::accumulate(some.begin(), some.end(), 0.0);
    std::ranges::fill(some, sum / static_cast<double>(some.size()));
  }
}

Result<BenchRun> Sampler::once(const Measurement& measurement, const Run& run) {
  if (interrupted()) return interruption();
  PUMICE_CHECK(wait_for_turn());
  const double before = process_age();
  PUMICE_TRY(BenchRun result, run());
  if (report_.cold_start && report_.cold_start->test.empty()) {
    report_.cold_start->test = measurement.test;
    report_.cold_start->started = before;
    report_.cold_start->first = process_age() - result.after_first;
    report_.cold_start->compiling = compiled_kernels().seconds;
  }
  result.clocks = read_clocks(cpu_device_);
  return result;
}

Status Sampler::add(Measurement measurement, const Run& run) {
  measurement.test += options_.variant;
  keep(nullptr);
  {
    ProgressBar bar(measurement.test + ": warming up");
    const Stopwatch watch;
    for (uint32_t i = 0; i < options_.warm_up && !measurement.settled; ++i) {
      if (i >= least_warm_up && watch.seconds() > longest_warm_up) break;
      if (!bar.update(i, options_.warm_up)) return interruption();
      PUMICE_TRY(const BenchRun result, once(measurement, run));
      measurement.warm_up.push_back(result.seconds);
      measurement.settled = is_stable(measurement.warm_up);
    }
  }
  ProgressBar bar(measurement.test);
  const MachineWatch machine;
  const Stopwatch watch;
  double kept = -1; // seconds
  for (uint32_t i = 0; i < options_.repetitions; ++i) {
    Result<BenchRun> result =
        bar.update(i, options_.repetitions) ? once(measurement, run) : Result<BenchRun>(interruption());
    if (result.ok()) measurement.runs.push_back(*result);
    measurement.machine = machine.use();
    // Keeping the report takes time, so that short runs do it rarely.
    constexpr double pause = 0.3;
    if (!measurement.runs.empty() && (!result.ok() || kept < 0 || watch.seconds() > kept + pause)) {
      keep(&measurement);
      kept = watch.seconds();
    }
    if (!result.ok()) return std::move(result).error();
  }
  report_.results.push_back(std::move(measurement));
  return {};
}

void Sampler::keep(const Measurement* unfinished) {
  BenchReport so_far = report_;
  if (unfinished) so_far.results.push_back(*unfinished);
  so_far.partial = true;
  keep_(std::move(so_far));
}

} // namespace pumice::command
