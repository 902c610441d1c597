#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/report.h"
#include "bench/statistics.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

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

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

// The width on a terminal: one column for each character of UTF-8, whose further bytes do not count.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

using Row = std::vector<std::string>;

// The columns of tables of at most `width` characters (0: any): those behind the first have the column `key`
// in front. A column of the width 0 is in none.
std::vector<std::vector<size_t>> divided(const std::vector<size_t>& widths, size_t key, size_t width) {
  std::vector<std::vector<size_t>> tables(1);
  size_t used = 1;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == 0 || (i == key && tables.size() > 1)) continue;
    if (width > 0 && used + widths[i] + 3 > width && tables.back().size() > (tables.size() > 1)) {
      tables.push_back({key});
      used = widths[key] + 4;
      if (i == key) continue; // it is in front already
    }
    tables.back().push_back(i);
    used += widths[i] + 3;
  }
  return tables;
}

std::string table_of(const std::vector<Row>& rows, const std::vector<size_t>& widths,
                     const std::vector<size_t>& columns, size_t left) {
  std::string text;
  for (const Row& row : rows) {
    for (size_t i : columns) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      text += i < left ? "| " + row[i] + space + " " : "| " + space + row[i] + " ";
    }
    text += "|\n";
    if (&row != rows.data()) continue;
    for (size_t i : columns) text += "|" + std::string(widths[i] + 1, '-') + (i < left ? "-" : ":");
    text += "|\n";
  }
  return text;
}

} // namespace

std::string markdown_table(std::vector<Row> rows, size_t left) {
  std::vector<size_t> widths(rows[0].size());
  for (size_t i = 0; i < widths.size(); ++i) {
    const bool used =
        std::any_of(rows.begin() + 1, rows.end(), [&](const Row& row) { return !row[i].empty(); });
    for (const Row& row : rows) widths[i] = used ? std::max(widths[i], width_of(row[i])) : 0;
  }
  std::string text;
  for (const std::vector<size_t>& columns : divided(widths, left - 1, stdout_columns())) {
    if (!text.empty()) text += "\n";
    text += table_of(rows, widths, columns, left);
  }
  return text;
}

namespace {

// The share of the processors that other programs used meanwhile.
std::string share_of_others(const Measurement& result) {
  return result.machine.others ? percent(*result.machine.others) : "";
}

std::string model_table(const BenchReport& report) {
  const MeasuredModel& model = *report.model;
  // The columns up to t/s are the same as in llama-bench.
  std::vector<Row> rows = {{"model", "size", "params", "backend", "test", "t/s", "of bandwidth",
                            "of arithmetic", "seconds", "first token ms", "token ms p50", "p90", "p99", "max",
                            "host µs/step", "other programs"}};
  for (const Measurement& result : report.results) {
    const std::vector<double> speeds = result.tokens_per_second(), first = result.first_tokens(),
                              between = result.token_seconds(), host = result.host_step_seconds();
    const auto milliseconds = [&](double share) {
      return between.empty() ? "" : fmt::format("{:.2f}", quantile(between, share) * 1e3);
    };
    rows.push_back({model.name, size_text(model.bytes), count_text(model.parameters), "Vulkan", result.test,
                    fmt::format("{:.2f} ± {:.2f}", mean(speeds), deviation(speeds)),
                    percent(result.share_of_bandwidth(report.ceilings)),
                    percent(result.share_of_arithmetic(report.ceilings)),
                    result.kind == "translate" ? fmt::format("{:.3f}", result.median_seconds()) : "",
                    first.empty() ? "" : fmt::format("{:.1f}", median(first) * 1e3), milliseconds(0.5),
                    milliseconds(0.9), milliseconds(0.99), milliseconds(1),
                    host.empty() ? "" : fmt::format("{:.1f}", median(host) * 1e6), share_of_others(result)});
  }
  return markdown_table(std::move(rows), 5);
}

std::string operation_table(const BenchReport& report) {
  std::vector<Row> rows = {{"op", "kernel", "type", "shape", "µs", "GFLOP/s", "GB/s", "bound by",
                            "of the roof", "other programs"}};
  for (const Measurement& result : report.results) {
    const double seconds = result.median_seconds();
    const bool arithmetic =
        result.share_of_arithmetic(report.ceilings) > result.share_of_bandwidth(report.ceilings);
    rows.push_back({result.test.substr(0, result.test.find(' ')),
                    fmt::format("{}", fmt::join(result.kernels, " + ")), result.type, result.shape,
                    fmt::format("{:.1f}", seconds * 1e6), fmt::format("{:.2f}", result.flops / seconds / 1e9),
                    fmt::format("{:.2f}", result.bytes / seconds / 1e9), arithmetic ? "arithmetic" : "memory",
                    percent(result.share_of_roof(report.ceilings)), share_of_others(result)});
  }
  return markdown_table(std::move(rows), 4);
}

std::string notes(const BenchReport& report) {
  const Environment& environment = report.environment;
  std::string text = fmt::format("\n{} ({} {}), limits: {}\n", environment.device, environment.driver,
                                 environment.driver_version, ceilings_text(report.ceilings));
  if (const auto& start = report.cold_start) {
    text += fmt::format(
        "cold start ({}): device open after {:.2f} s, model loaded after {:.2f} s, session "
        "ready after {:.2f} s, first result after {:.2f} s, of which {:.2f} s compiled kernels\n",
        start->test, start->device, start->loaded, start->started, start->first, start->compiling);
  }
  if (const std::string line = machine_line(report); !line.empty()) text += line + "\n";
  for (const Measurement& result : report.results) {
    const std::string reason = result.why_unstable();
    if (!reason.empty()) text += fmt::format("{}: not stable: {}\n", result.test, reason);
  }
  text += blocked_lines(report);
  if (report.partial) text += "stopped: not everything was measured\n";
  return text;
}

std::string profile_table(const StepProfile& profile) {
  const std::string text = fitted(fmt::format("\n{}: {:.3f} ms in {} dispatches, run one by one\n",
                                              profile.step, profile.seconds * 1e3, profile.dispatches),
                                  stdout_columns());
  std::vector<Row> rows = {{"kernel", "dispatches", "ms", "share", "GFLOP/s", "GB/s"}};
  for (const KernelTime& kernel : profile.kernels) {
    rows.push_back({kernel.kernel, fmt::format("{}", kernel.dispatches),
                    fmt::format("{:.3f}", kernel.seconds * 1e3), percent(kernel.seconds / profile.seconds),
                    fmt::format("{:.2f}", kernel.flops / kernel.seconds / 1e9),
                    fmt::format("{:.2f}", kernel.bytes / kernel.seconds / 1e9)});
  }
  return text + markdown_table(std::move(rows), 1);
}

std::string share_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.4f}", *share) : "";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
  return result + "\"";
}

} // namespace

std::string report_markdown(const BenchReport& report) {
  std::string text;
  if (!report.results.empty()) text = report.model ? model_table(report) : operation_table(report);
  text += fitted(notes(report), stdout_columns());
  for (const StepProfile& each : report.profiles) text += profile_table(each);
  return text;
}

std::string report_csv(const BenchReport& report) {
  const Environment& environment = report.environment;
  std::string text = "model,size_bytes,parameters,device,driver,driver_version,test,samples,stable,"
                     "median_seconds,mean_tokens_per_second,standard_deviation,median_tokens_per_second,"
                     "flops,bytes,share_of_bandwidth,share_of_arithmetic,"
                     "copy_bytes_per_second,flops_per_second,other_programs,stolen\n";
  const MeasuredModel model = report.model.value_or(MeasuredModel());
  for (const Measurement& result : report.results) {
    const std::vector<double> speeds = result.tokens_per_second();
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.4f},{:.4f},{:.6g},"
        "{:.6g},{},{}\n",
        quoted(model.path), model.bytes, model.parameters, quoted(environment.device),
        quoted(environment.driver), quoted(environment.driver_version), quoted(result.test),
        result.runs.size(), result.why_unstable().empty() ? 1 : 0, result.median_seconds(), mean(speeds),
        deviation(speeds), median(speeds), result.flops, result.bytes,
        result.share_of_bandwidth(report.ceilings), result.share_of_arithmetic(report.ceilings),
        report.ceilings.copy_bytes_per_second, report.ceilings.flops_per_second,
        share_text(result.machine.others), share_text(result.machine.stolen));
  }
  return text;
}

} // namespace pumice::command
