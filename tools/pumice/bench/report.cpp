#include "bench/report.h"

#include <algorithm>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "bench/statistics.h"
#include "terminal/terminal.h"

namespace pumice::command {

std::string blocked_lines(const BenchReport& report) {
  std::string text;
  for (const auto& [key, blocked] : report.blocked) text += blocked_text(key, blocked) + "\n";
  if (text.empty()) return text;
  return text + fmt::format("{} says so; 'pumice doctor' tries all kernels again\n", report.blocked_file);
}

std::string Measurement::why_unstable() const {
  if (std::string reason = command::why_unstable(seconds()); !reason.empty()) return reason;
  if (settled || warm_up.empty()) return "";
  return fmt::format("its times still changed after {} warm-up runs, the last of which took {:.3g} s",
                     warm_up.size(), warm_up.back());
}

std::vector<double> Measurement::seconds() const {
  std::vector<double> all;
  for (const BenchRun& run : runs) all.push_back(run.seconds);
  return all;
}

std::vector<double> Measurement::first_tokens() const {
  std::vector<double> all;
  for (const BenchRun& run : runs) {
    if (run.first_token) all.push_back(*run.first_token);
  }
  return all;
}

std::vector<double> Measurement::token_seconds() const {
  std::vector<double> all;
  for (const BenchRun& run : runs) all.insert(all.end(), run.token_seconds.begin(), run.token_seconds.end());
  return all;
}

std::vector<double> Measurement::host_step_seconds() const {
  std::vector<double> all;
  for (const BenchRun& run : runs) {
    if (run.host_step_seconds) all.push_back(*run.host_step_seconds);
  }
  return all;
}

std::vector<double> Measurement::tokens_per_second() const {
  std::vector<double> all;
  for (const BenchRun& run : runs) all.push_back(tokens / run.seconds);
  return all;
}

double Measurement::median_seconds() const {
  return median(seconds());
}

double Measurement::share_of_bandwidth(const Ceilings& ceilings) const {
  return bytes / median_seconds() / ceilings.copy_bytes_per_second;
}

double Measurement::share_of_arithmetic(const Ceilings& ceilings) const {
  return flops / median_seconds() / ceilings.flops_per_second;
}

double Measurement::share_of_roof(const Ceilings& ceilings) const {
  return std::max(share_of_bandwidth(ceilings), share_of_arithmetic(ceilings));
}

std::string machine_line(const BenchReport& report) {
  const MachineUse use = report.machine.use();
  std::vector<double> clocks;
  for (const Measurement& result : report.results) {
    for (const BenchRun& run : result.runs) {
      if (run.clocks.cpu) clocks.push_back(*run.clocks.cpu);
    }
  }
  std::string text = in_words(use);
  if (!clocks.empty()) {
    const auto [low, high] = std::ranges::minmax(clocks);
    text += text.empty() ? "" : ", ";
    text += high < 1.02 * low ? fmt::format("processors at {:.0f} MHz", high)
                              : fmt::format("processors at {:.0f} to {:.0f} MHz", low, high);
  }
  return text.empty() ? "" : fmt::format("the machine was {}: {}", busy_or_quiet(use), text);
}

std::string date_text(int64_t seconds_since_1970) {
  if (seconds_since_1970 <= 0) return "";
  return fmt::format("{:%FT%TZ}", fmt::gmtime(static_cast<std::time_t>(seconds_since_1970)));
}

std::string ceilings_text(const Ceilings& ceilings) {
  const auto reached = [](int64_t time) {
    const std::string date = date_text(time);
    return date.empty() ? "" : fmt::format(" (reached on {})", date.substr(0, date.find('T')));
  };
  return fmt::format("{:.2f} GB/s copying{}, {:.2f} GFLOP/s{}", ceilings.copy_bytes_per_second / 1e9,
                     reached(ceilings.copy_time), ceilings.flops_per_second / 1e9,
                     reached(ceilings.flops_time));
}

std::string report_text(const BenchReport& report, const std::string& format) {
  return format == "json"    ? report_json(report)
         : format == "jsonl" ? report_json_lines(report)
         : format == "csv"   ? report_csv(report)
         : format == "html"  ? report_html(report)
                             : report_markdown(report);
}

void print_report(const BenchReport& report, const std::string& format) {
  print_result(report_text(report, format));
}

} // namespace pumice::command
