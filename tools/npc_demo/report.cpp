#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>

#include "failure.h"

namespace npc {

namespace {

constexpr size_t first_frames = 10; // frames with slices in which Pumice learns the times of its dispatches

const char* name(Phase phase) {
  return phase == Phase::on ? "on" : phase == Phase::off ? "off" : "loading";
}

// A control that took more than this multiple of its time on a quiet machine was disturbed.
constexpr float disturbed = 1.2f;

bool exceeds(const Figures& frame) {
  return frame.added_us > frame.budget_us + frame.largest_us;
}

// The frames with slices: the first ones, and the others.
std::pair<std::vector<Figures>, std::vector<Figures>> with_slices(const std::vector<Figures>& frames) {
  std::vector<Figures> first, later;
  for (const Figures& frame : frames)
    if (frame.dispatches > 0) (first.size() < first_frames ? first : later).push_back(frame);
  return {first, later};
}

std::vector<float> values(const std::vector<Figures>& frames, float Figures::*figure) {
  std::vector<float> all;
  for (const Figures& frame : frames) all.push_back(frame.*figure);
  return all;
}

float most(const std::vector<float>& values) {
  return values.empty() ? 0 : *std::ranges::max_element(values);
}

} // namespace

float quantile(std::vector<float> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(at, 1) - 1);
  std::ranges::nth_element(values, nth);
  return *nth;
}

Report::Report(const std::filesystem::path& csv) {
  if (csv.empty()) return;
  csv_.open(csv);
  csv_ << "frame,frame_ms,added_us,cpu_us,budget_us,expected_us,largest_us,dispatches,tokens,generation,"
          "scene_us,control_us\n";
  if (!csv_) throw Failure(fmt::format("{} cannot be written", csv.string()));
}

void Report::add(const Figures& f) {
  run_.push_back(f);
  if (csv_.is_open())
    csv_ << fmt::format("{},{:.3f},{:.1f},{:.1f},{:.0f},{:.1f},{:.1f},{},{},{},{:.1f},{:.1f}\n", f.frame,
                        f.frame_ms, f.added_us, f.cpu_us, f.budget_us, f.expected_us, f.largest_us,
                        f.dispatches, f.tokens, name(f.phase), f.scene_us, f.control_us);
}

void Report::end_run(std::optional<bool> same_text) {
  std::map<std::pair<Phase, float>, std::vector<Figures>> kinds;
  for (const Figures& frame : run_)
    kinds[{frame.phase, frame.phase == Phase::on ? frame.budget_us : 0}].push_back(frame);
  for (auto& [kind, frames] : kinds)
    rows_.push_back({name(kind.first), kind.second, std::move(frames),
                     kind.first == Phase::on ? same_text : std::nullopt});
  run_.clear();
}

uint64_t Report::tokens() const {
  uint64_t sum = 0;
  for (const Row& row : rows_)
    for (const Figures& frame : row.frames) sum += frame.tokens;
  return sum;
}

std::string Report::line(const Row& row) {
  const std::vector<float> frame_ms = values(row.frames, &Figures::frame_ms);
  std::string text =
      fmt::format("{:<10} {:>6} {:>6}  {:>7.2f} {:>7.2f} {:>7.2f}", row.generation,
                  row.budget_us > 0 ? fmt::format("{:.0f}", row.budget_us) : "-", row.frames.size(),
                  median(frame_ms), quantile(frame_ms, 0.99), most(frame_ms));
  if (row.generation != "on") return text;

  const auto [first, later] = with_slices(row.frames);
  const std::vector<float> added = values(later, &Figures::added_us);
  const std::vector<float> cpu = values(later, &Figures::cpu_us);
  float limit = 0, milliseconds = 0;
  uint64_t tokens = 0;
  for (const Figures& frame : later) limit = std::max(limit, frame.budget_us + frame.largest_us);
  for (const Figures& frame : row.frames) {
    milliseconds += frame.frame_ms;
    tokens += frame.tokens;
  }
  text += fmt::format("  {:>7.0f} {:>7.0f} {:>7.0f} {:>7.0f} {:>8}", median(added), quantile(added, 0.99),
                      most(added), limit, std::ranges::count_if(later, exceeds));
  text +=
      fmt::format("  {:>7.0f} {:>8}  {:>6.0f} {:>6.0f}  {:>7.1f}", most(values(first, &Figures::added_us)),
                  std::ranges::count_if(first, exceeds), median(cpu), quantile(cpu, 0.99),
                  milliseconds > 0 ? 1000 * static_cast<float>(tokens) / milliseconds : 0);
  if (row.same_text) text += *row.same_text ? "  same" : "  DIFFERENT";
  return text;
}

void Report::print(const std::string& title) const {
  std::printf("%s\n\n", title.c_str());
  std::printf("%-10s %6s %6s  %23s  %40s  %16s  %13s  %7s\n", "", "", "", "frame, ms",
              "added by Pumice, µs       ", "first 10 slices", "its call, µs", "");
  std::printf("%-10s %6s %6s  %7s %7s %7s  %7s %7s %7s %7s %8s  %7s %8s  %6s %6s  %7s  %s\n", "generation",
              "budget", "frames", "median", "p99", "max", "median", "p99", "max", "limit", "exceeded", "max",
              "exceeded", "median", "p99", "token/s", "text");
  for (const Row& row : rows_) std::printf("%s\n", line(row).c_str());
  std::printf(
      "\nlimit: the budget plus the time of the largest dispatch (the maximum of all frames); exceeded: "
      "number of\nframes that took longer than their own limit; text: whether it is the same as without "
      "slices\n");
  print_control();
}

// Compares slices with the control: did the machine make them long, or a wrong expectation?
void Report::print_control() const {
  const auto controlled = [](const Row& row) {
    return row.generation == name(Phase::on) && median(values(row.frames, &Figures::control_us)) > 0;
  };
  if (std::ranges::none_of(rows_, controlled)) return;
  std::printf("\n%6s %6s  %31s  %6s %6s  %22s  %7s\n", "", "", "slice: actual / expected time ", "", "",
              "beyond budget + largest", "control");
  std::printf("%6s %6s  %7s %7s %7s %7s  %6s %6s  %7s %7s %7s  %7s\n", "budget", "slices", "10 %", "median",
              "90 %", "99 %", "used", "longer", "all", "quiet", "alone", "slow");
  for (const Row& row : rows_)
    if (controlled(row)) std::printf("%s\n", control_line(row).c_str());
  std::printf(
      "\nused: the median share of the budget; longer: slices that took more than their budget; quiet: "
      "those\nbeyond while the control took less than %.1f times its quiet time (that of its fastest "
      "tenth); alone:\ncontrols that took as many times their quiet time as a slice must take its "
      "expected time to be beyond;\nslow: all controls above %.1f times their quiet time\n",
      disturbed, disturbed);
}

std::string Report::control_line(const Row& row) {
  const std::vector<Figures> frames = with_slices(row.frames).second;
  const float quiet_us = quantile(values(frames, &Figures::control_us), 0.1);
  std::vector<float> ratios, used;
  int longer = 0, beyond = 0, quiet = 0, alone = 0, slow = 0;
  for (const Figures& frame : frames) {
    ratios.push_back(frame.added_us / frame.expected_us);
    used.push_back(frame.added_us / frame.budget_us);
    const bool calm = frame.control_us < disturbed * quiet_us;
    longer += frame.added_us > frame.budget_us;
    beyond += exceeds(frame);
    quiet += exceeds(frame) && calm;
    alone += frame.control_us / quiet_us > (frame.budget_us + frame.largest_us) / frame.expected_us;
    slow += !calm;
  }
  return fmt::format(
      "{:>6.0f} {:>6}  {:>7.2f} {:>7.2f} {:>7.2f} {:>7.2f}  {:>6.2f} {:>6}  {:>7} {:>7} {:>7}  {:>7}",
      row.budget_us, frames.size(), quantile(ratios, 0.1), median(ratios), quantile(ratios, 0.9),
      quantile(ratios, 0.99), median(used), longer, beyond, quiet, alone, slow);
}

} // namespace npc
