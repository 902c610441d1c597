#include "tools/pumice/bench/report.h"

#include <algorithm>

#include "tools/pumice/bench/statistics.h"
#include "tools/pumice/terminal.h"

namespace pumice::command {

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

void print_report(const BenchReport& report, const std::string& format) {
  print_result(format == "json"   ? report_json(report)
               : format == "csv"  ? report_csv(report)
               : format == "html" ? report_html(report)
                                  : report_markdown(report));
}

} // namespace pumice::command
