#include "bench/machine.h"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace pumice::command {

#ifdef __linux__

namespace {

double cpu_seconds(int who) {
  rusage usage = {};
  if (getrusage(who, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

} // namespace

std::optional<MachineWatch::Times> MachineWatch::now() {
  std::ifstream file("/proc/stat");
  std::string name;
  // user, nice, system, idle, waiting for files, two kinds of interrupts, stolen
  std::array<double, 8> ticks = {};
  file >> name;
  for (double& each : ticks) file >> each;
  if (!file || name != "cpu") return std::nullopt;
  const double tick = 1 / static_cast<double>(sysconf(_SC_CLK_TCK));
  Times times;
  times.all = std::accumulate(ticks.begin(), ticks.end(), 0.0) * tick;
  times.stolen = ticks[7] * tick;
  times.busy = times.all - times.stolen - (ticks[3] + ticks[4]) * tick;
  times.ours = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN);
  return times;
}

#else

std::optional<MachineWatch::Times> MachineWatch::now() {
  return std::nullopt; // no other system tells how much the host of a virtual machine takes
}

#endif

MachineWatch::MachineWatch() : start_(now()) {}

MachineUse MachineWatch::use() const {
  MachineUse use;
  if (double load = 0; std::ifstream("/proc/loadavg") >> load) use.load = load;
  const std::optional<Times> end = now();
  if (!start_ || !end || !(end->all > start_->all)) return use;
  const double all = end->all - start_->all;
  const double others = end->busy - start_->busy - (end->ours - start_->ours);
  use.others = std::clamp(others / all, 0.0, 1.0);
  use.stolen = std::clamp((end->stolen - start_->stolen) / all, 0.0, 1.0);
  return use;
}

bool is_busy(const MachineUse& use) {
  return use.others.value_or(0) > busy_others || use.stolen.value_or(0) > busy_stolen;
}

std::string_view busy_or_quiet(const MachineUse& use) {
  if (!use.others && !use.stolen) return "not watched";
  return is_busy(use) ? "busy" : "quiet";
}

std::string in_words(const MachineUse& use) {
  std::vector<std::string> parts;
  if (use.others)
    parts.push_back(fmt::format("other programs used {:.0f} % of the processors", *use.others * 100));
  if (use.stolen && *use.stolen >= 0.005) {
    parts.push_back(fmt::format("the host of this virtual machine took {:.0f} %", *use.stolen * 100));
  }
  if (use.load) parts.push_back(fmt::format("load {:.1f}", *use.load));
  return fmt::format("{}", fmt::join(parts, ", "));
}

} // namespace pumice::command
