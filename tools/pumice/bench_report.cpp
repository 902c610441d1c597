#include "bench_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>

#include "json_output.h"
#include "version.h"

namespace pumice::command {

double Measurement::mean() const {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double Measurement::deviation() const {
  if (samples.size() < 2) return 0;
  double sum = 0;
  for (double sample : samples) sum += (sample - mean()) * (sample - mean());
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

double Measurement::median() const {
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double Measurement::share_of_bandwidth(const Ceilings& ceilings) const {
  return bytes / tokens * median() / ceilings.copy_bytes_per_second;
}

double Measurement::share_of_arithmetic(const Ceilings& ceilings) const {
  return flops / tokens * median() / ceilings.flops_per_second;
}

namespace {

std::string size_text(uint64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1 << 20);
  return mebibytes < 1024 ? fmt::format("{:.2f} MiB", mebibytes)
                          : fmt::format("{:.2f} GiB", mebibytes / 1024);
}

std::string count_text(uint64_t count) {
  const double millions = static_cast<double>(count) / 1e6;
  return millions < 1000 ? fmt::format("{:.2f} M", millions) : fmt::format("{:.2f} B", millions / 1000);
}

std::string markdown(const BenchReport& report) {
  const std::string name = std::filesystem::path(report.model).filename().string();
  std::vector<std::vector<std::string>> rows = {
      {"model", "size", "params", "device", "test", "t/s", "of bandwidth", "of arithmetic"}};
  for (const Measurement& result : report.results) {
    rows.push_back({name.empty() ? report.model : name, size_text(report.bytes),
                    count_text(report.parameters), report.device, result.test,
                    fmt::format("{:.2f} ± {:.2f}", result.mean(), result.deviation()),
                    fmt::format("{:.1f} %", 100 * result.share_of_bandwidth(report.ceilings)),
                    fmt::format("{:.1f} %", 100 * result.share_of_arithmetic(report.ceilings))});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      // '±' is two bytes of one column.
      widths[i] = std::max(widths[i], row[i].size() - (row[i].find("±") != std::string::npos));
    }
  }
  std::string text;
  for (size_t line = 0; line < rows.size(); ++line) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const size_t width = widths[i] + (rows[line][i].find("±") != std::string::npos);
      text += i < 4 ? "| " + rows[line][i] + std::string(width - rows[line][i].size(), ' ') + " "
                    : "| " + std::string(width - rows[line][i].size(), ' ') + rows[line][i] + " ";
    }
    text += "|\n";
    if (line > 0) continue;
    for (size_t i = 0; i < widths.size(); ++i)
      text += "|" + std::string(widths[i] + 1, '-') + (i < 4 ? "-" : ":");
    text += "|\n";
  }
  return text + fmt::format("\n{} ({}): copies {:.2f} GB/s, computes {:.2f} GFLOP/s\n", report.device,
                            report.driver, report.ceilings.copy_bytes_per_second / 1e9,
                            report.ceilings.flops_per_second / 1e9);
}

std::string csv(const BenchReport& report) {
  const auto quoted = [](const std::string& text) {
    std::string result = "\"";
    for (char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
  };
  std::string text =
      "model,size_bytes,parameters,device,driver,test,mean_tokens_per_second,standard_deviation,"
      "median_tokens_per_second,share_of_bandwidth,share_of_arithmetic\n";
  for (const Measurement& result : report.results) {
    text +=
        fmt::format("{},{},{},{},{},{},{:.4f},{:.4f},{:.4f},{:.4f},{:.4f}\n", quoted(report.model),
                    report.bytes, report.parameters, quoted(report.device), quoted(report.driver),
                    quoted(result.test), result.mean(), result.deviation(), result.median(),
                    result.share_of_bandwidth(report.ceilings), result.share_of_arithmetic(report.ceilings));
  }
  return text;
}

Json to_json(const BenchReport& report) {
  Json json;
  json["device"] = report.device;
  json["driver"] = report.driver;
  json["model"] = report.model;
  json["size_bytes"] = report.bytes;
  json["parameters"] = report.parameters;
  json["version"] = version;
  json["ceilings"] = {{"copy_bytes_per_second", report.ceilings.copy_bytes_per_second},
                      {"flops_per_second", report.ceilings.flops_per_second}};
  json["results"] = Json::array();
  for (const Measurement& result : report.results) {
    json["results"].push_back({{"test", result.test},
                               {"samples", result.samples},
                               {"median_tokens_per_second", result.median()},
                               {"share_of_bandwidth", result.share_of_bandwidth(report.ceilings)},
                               {"share_of_arithmetic", result.share_of_arithmetic(report.ceilings)}});
  }
  return json;
}

} // namespace

void print_report(const BenchReport& report, const std::string& format) {
  if (format == "json") {
    print_json(to_json(report), 2);
  } else {
    print_result(format == "csv" ? csv(report) : markdown(report));
  }
}

} // namespace pumice::command
