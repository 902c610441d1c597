#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "bench/chart.h"
#include "bench/report.h"
#include "bench/statistics.h"

namespace pumice::command {

namespace {

constexpr const char* style =
    R"(:root { color-scheme: light dark; --ink: #222; --page: #fff; --faint: #ddd; --grid: #e4e4e4; --axis: #555 }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e4e4; --page: #16181c; --faint: #3a3d42; --grid: #2b2e33; --axis: #999 } }
body { font: 15px/1.45 sans-serif; color: var(--ink); background: var(--page); max-width: 60em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em; overflow-wrap: anywhere } h2 { font-size: 1.15em; margin-top: 2em }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: 0.2em 0.7em; border-bottom: 1px solid var(--faint); text-align: right; white-space: nowrap }
th { vertical-align: bottom; white-space: normal } th:first-child, td:first-child { text-align: left; padding-left: 0 }
dl { display: grid; grid-template-columns: max-content auto; gap: 0.1em 1.2em } dd { margin: 0; overflow-wrap: anywhere }
@media (max-width: 36em) { dl { display: block } dt { font-weight: bold; margin-top: 0.4em } }
svg { max-width: 100%; height: auto; display: block; margin: 1em 0 }
svg text { font: 12px sans-serif; fill: var(--ink) } svg .title { font-size: 14px; font-weight: bold } svg .point { font-size: 10px }
.grid { stroke: var(--grid) } .axis { stroke: var(--axis); fill: none } .hollow { fill: var(--page) }
.samples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26em, 100%), 1fr)); gap: 0 1em }
.samples svg { margin: 0.3em 0 } .samples svg .title { font-size: 12px }
@media (max-width: 36em) { svg text { font-size: 16px } svg .title { font-size: 18px } svg .point { font-size: 13px } svg .legend { font-size: 13px }
  .samples svg text { font-size: 13px } .samples svg .title { font-size: 14px } }
)";

// The group of a result. Results of a group share a colour and an entry of the legend.
std::string group_of(const Measurement& result) {
  if (result.kind != "operation") return result.kind;
  const std::string name = result.test.substr(0, result.test.find(' '));
  return fmt::format("{}, {}", name,
                     result.shape.substr(0, result.shape.find(name == "product" ? " x" : ",")) +
                         (name == "product" ? " rows" : ""));
}

std::string roofline(const BenchReport& report) {
  const Ceilings& ceilings = report.ceilings;
  std::map<std::string, ChartSeries> groups;
  const double ridge = ceilings.flops_per_second / ceilings.copy_bytes_per_second;
  double low = ridge / 10, high = ridge * 10;
  for (const Measurement& result : report.results) {
    if (!(result.flops > 0) || !(result.bytes > 0)) continue;
    const double intensity = result.flops / result.bytes, rate = result.flops / result.median_seconds();
    ChartSeries& series = groups[group_of(result)];
    series.name = group_of(result);
    series.line = false;
    series.points.push_back({intensity, rate / 1e9});
    series.labels.push_back(result.test);
    series.notes.push_back(fmt::format("{}: {:.2f} GFLOP/s, {:.1f} % of the roof", result.test, rate / 1e9,
                                       100 * result.share_of_roof(ceilings)));
    low = std::min(low, intensity);
    high = std::max(high, intensity);
  }
  if (groups.empty() || !(ridge > 0)) return "";
  Chart chart;
  chart.title = "Roofline: measured speeds and the limits of the device";
  chart.x_label = "arithmetic intensity, FLOP per byte";
  chart.y_label = "GFLOP/s";
  chart.log_x = chart.log_y = true;
  chart.height = 440;
  const auto roof = [&](double x) {
    return std::pair(x, std::min(ceilings.flops_per_second, x * ceilings.copy_bytes_per_second) / 1e9);
  };
  chart.series.push_back({"measured ceilings", {roof(low), roof(ridge), roof(high)}, {}, {}, true, false});
  for (auto& [name, series] : groups) chart.series.push_back(std::move(series));
  return draw(chart);
}

// Speeds over one of a test's numbers: a line for each name that tests have without it.
struct SpeedChart {
  std::string kind, title, x_label;
  uint32_t Measurement::*x;
  std::function<std::string(const Measurement&)> name;
};

// Up to where a test's name tells its depth.
std::string without_depth(const Measurement& result) {
  return result.test.substr(0, result.test.find(" @"));
}
std::string without_sequences(const Measurement& result) {
  const size_t depth = result.test.find(" @");
  return result.test.substr(0, result.test.find(' ')) +
         (depth == std::string::npos ? "" : result.test.substr(depth));
}

std::string speed_chart(const BenchReport& report, const SpeedChart& wanted) {
  Chart chart;
  chart.title = wanted.title;
  chart.x_label = wanted.x_label;
  chart.y_label = "tokens/s";
  std::map<std::string, ChartSeries> tests;
  for (const Measurement& result : report.results) {
    if (result.kind != wanted.kind) continue;
    const std::string name = wanted.name(result);
    ChartSeries& series = tests[name];
    series.name = name;
    const double speed = median(result.tokens_per_second());
    series.points.push_back({result.*wanted.x, speed});
    series.notes.push_back(fmt::format("{}: {:.2f} tokens/s", result.test, speed));
  }
  if (std::ranges::all_of(tests, [](const auto& test) { return test.second.points.size() < 2; }))
    return ""; // one point makes no line
  for (auto& [name, series] : tests) {
    std::ranges::sort(series.points);
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

std::string samples_over_time(const Measurement& result) {
  const bool operation = result.kind == "operation";
  Chart chart;
  chart.title = result.test + (result.why_unstable().empty() ? "" : " (not stable)");
  chart.x_label = "run";
  chart.y_label = operation ? "µs" : "ms";
  chart.width = 440;
  chart.height = 200;
  const double unit = operation ? 1e6 : 1e3;
  ChartSeries counted, warm_up;
  double run = 0;
  for (double seconds : result.warm_up) warm_up.points.push_back({++run, seconds * unit});
  for (const BenchRun& each : result.runs) counted.points.push_back({++run, each.seconds * unit});
  // The first run may take many times as long as the others. Cut it off, so that the others stay visible.
  const double most = 4 * result.median_seconds() * unit;
  for (auto& point : warm_up.points) {
    warm_up.notes.push_back(fmt::format("{:.4g} {}", point.second, chart.y_label));
    if (point.second > most) chart.y_label = (operation ? "µs" : "ms") + std::string(", cut off above");
    point.second = std::min(point.second, most);
  }
  warm_up.hollow = true;
  chart.series = {counted, warm_up};
  return draw(chart);
}

// With a heading row. Empty columns are left out.
std::string table_of(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"wide\"><table>\n";
  for (size_t line = 0; line < rows.size(); ++line) {
    text += "<tr>";
    for (size_t i = 0; i < rows[line].size(); ++i) {
      if (std::all_of(rows.begin() + 1, rows.end(), [&](const auto& row) { return row[i].empty(); }))
        continue;
      text += fmt::format("<{0}>{1}</{0}>", line == 0 ? "th" : "td", escaped(rows[line][i]));
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string results_table(const BenchReport& report) {
  std::vector<std::vector<std::string>> rows = {{"test", "tokens/s", "95 % interval", "ms", "95 % interval",
                                                 "GFLOP/s", "GB/s", "of the roof", "first token ms",
                                                 "token ms p50", "p90", "p99", "other programs"}};
  for (const Measurement& result : report.results) {
    const double seconds = result.median_seconds();
    const std::vector<double> first = result.first_tokens(), between = result.token_seconds();
    const auto milliseconds = [&](double share) {
      return between.empty() ? "" : fmt::format("{:.2f}", quantile(between, share) * 1e3);
    };
    std::string speeds, times;
    if (const auto interval = median_interval(result.seconds())) {
      if (result.tokens > 0)
        speeds =
            fmt::format("{:.2f} to {:.2f}", result.tokens / interval->high, result.tokens / interval->low);
      times = fmt::format("{:.4g} to {:.4g}", interval->low * 1e3, interval->high * 1e3);
    }
    rows.push_back({result.test, result.tokens > 0 ? fmt::format("{:.2f}", result.tokens / seconds) : "",
                    speeds, fmt::format("{:.4g}", seconds * 1e3), times,
                    fmt::format("{:.2f}", result.flops / seconds / 1e9),
                    fmt::format("{:.2f}", result.bytes / seconds / 1e9),
                    fmt::format("{:.1f} %", 100 * result.share_of_roof(report.ceilings)),
                    first.empty() ? "" : fmt::format("{:.1f}", median(first) * 1e3), milliseconds(0.5),
                    milliseconds(0.9), milliseconds(0.99),
                    result.machine.others ? fmt::format("{:.1f} %", 100 * *result.machine.others) : ""});
  }
  return table_of(rows);
}

std::string profile_section(const StepProfile& profile) {
  std::vector<std::vector<std::string>> rows = {{"kernel", "dispatches", "ms", "share", "GFLOP/s", "GB/s"}};
  for (const KernelTime& kernel : profile.kernels) {
    rows.push_back({kernel.kernel, fmt::format("{}", kernel.dispatches),
                    fmt::format("{:.3f}", kernel.seconds * 1e3),
                    fmt::format("{:.1f} %", 100 * kernel.seconds / profile.seconds),
                    fmt::format("{:.2f}", kernel.flops / kernel.seconds / 1e9),
                    fmt::format("{:.2f}", kernel.bytes / kernel.seconds / 1e9)});
  }
  return fmt::format("<h3>{}: {:.3f} ms in {} dispatches, run one by one</h3>\n", escaped(profile.step),
                     profile.seconds * 1e3, profile.dispatches) +
         table_of(rows);
}

std::string description_list(const BenchReport& report) {
  const Environment& environment = report.environment;
  std::string text = "<dl>\n";
  const auto item = [&](const char* name, const std::string& value) {
    text += fmt::format("<dt>{}</dt><dd>{}</dd>\n", name, escaped(value));
  };
  if (report.model) {
    item("Model", fmt::format("{} ({:.2f} million parameters, {} bytes, hash {})", report.model->path,
                              static_cast<double>(report.model->parameters) / 1e6, report.model->bytes,
                              report.model->hash));
  }
  item("Device", fmt::format("{} ({})", environment.device, environment.device_type));
  item("Driver", environment.driver + " " + environment.driver_version);
  item("Limits", ceilings_text(report.ceilings));
  if (const std::string line = machine_line(report); !line.empty()) item("Machine", line);
  if (!report.blocked.empty()) item("Not used", blocked_lines(report));
  if (const auto& start = report.cold_start) {
    item("Cold start",
         fmt::format("device open after {:.2f} s, model loaded after {:.2f} s, session ready after {:.2f} s, "
                     "first result after {:.2f} s, of which {:.2f} s compiled kernels ({})",
                     start->device, start->loaded, start->started, start->first, start->compiling,
                     start->test));
  }
  if (report.partial) item("Stopped", "not everything was measured");
  item("Command", environment.command);
  item("Version", environment.version);
  item("Date", environment.date);
  return text + "</dl>\n";
}

std::string results(const BenchReport& report) {
  std::string text = "<h2>Results</h2>\n" + results_table(report) +
                     "<h2>Distance to the limits of the device</h2>\n" + roofline(report);
  if (report.model) {
    const char* depth = "depth: tokens in the context before the test";
    const std::string prompt = speed_chart(report, {"prompt", "Reading a prompt, by depth", depth,
                                                    &Measurement::depth, without_depth}),
                      decode = speed_chart(report, {"decode", "Generating tokens, by depth", depth,
                                                    &Measurement::depth, without_depth}),
                      together = speed_chart(report, {"decode", "Generating tokens, by sequences together",
                                                      "sequences; the speed is that of all",
                                                      &Measurement::sequences, without_sequences});
    if (!prompt.empty() || !decode.empty()) text += "<h2>Speed by depth of context</h2>\n" + prompt + decode;
    if (!together.empty()) text += "<h2>Speed by sequences together</h2>\n" + together;
  }
  text += "<h2>Samples over time</h2>\n<p>Filled circles: measured runs. Hollow circles: warm-up.</p>\n<div "
          "class=\"samples\">\n";
  for (const Measurement& result : report.results) text += samples_over_time(result);
  return text + "</div>\n";
}

} // namespace

std::string report_html(const BenchReport& report) {
  const std::string name = report.model ? report.model->name : "single operations";
  std::string page = fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                                 "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                                 "<title>pumice bench: {0}</title>\n<style>\n{1}</style></head><body>\n"
                                 "<h1>pumice bench: {0}</h1>\n",
                                 escaped(name), style);
  page += description_list(report);
  if (!report.results.empty()) page += results(report);
  if (!report.profiles.empty()) page += "<h2>Kernels of a step</h2>\n";
  for (const StepProfile& each : report.profiles) page += profile_section(each);
  return page + "</body></html>\n";
}

} // namespace pumice::command
