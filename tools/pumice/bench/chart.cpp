#include "bench/chart.h"

#include "media/axis_marks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace pumice::command {

std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return result;
}

namespace {

constexpr std::array<const char*, 8> colours = {"#1f77b4", "#d95f02", "#2a9d5c", "#8856a7",
                                                "#b8860b", "#c2185b", "#17808a", "#555555"};

// One axis of a chart. Converts values to pixels.
struct Axis {
  double low = 0, high = 1;
  bool log = false;
  double begin = 0, end = 1; // in pixels

  double at(double value) const {
    const double share = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + share * (end - begin);
  }
  std::vector<double> marks(int about) const {
    if (!log) return axis_marks(low, high, about);
    std::vector<double> result;
    const bool wide = high / low > 300;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
      for (double factor : {1.0, 2.0, 5.0}) {
        const double mark = power * factor;
        if (mark >= low * 0.999 && mark <= high * 1.001 && (factor == 1 || !wide)) result.push_back(mark);
      }
    }
    return result;
  }
};

// An axis that covers all values with some margin. A linear axis also covers zero.
Axis around(const Chart& chart, bool x) {
  Axis axis;
  axis.log = x ? chart.log_x : chart.log_y;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartSeries& series : chart.series) {
    for (const auto& point : series.points) {
      const double value = x ? point.first : point.second;
      if (!std::isfinite(value) || (axis.log && value <= 0)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) low = axis.log ? 1 : 0, high = axis.log ? 10 : 1;
  if (axis.log) {
    axis.low = low / 1.5;
    axis.high = high * 1.5;
    return axis;
  }
  axis.low = std::min(low, 0.0);
  axis.high = high > axis.low ? high + 0.06 * (high - axis.low) : axis.low + 1;
  return axis;
}

std::string label(double value) {
  return std::abs(value) < 1e-9 ? "0" : fmt::format("{:.6g}", value);
}

std::string draw_axes(const Chart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (double mark : x.marks(std::max(3, static_cast<int>(x.end - x.begin) / 65))) {
    const double at = x.at(mark);
    svg += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\"/>"
                       "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
                       at, y.begin, y.end, y.begin + 16, label(mark));
  }
  for (double mark : y.marks(std::max(4, static_cast<int>(y.begin - y.end) / 55))) {
    const double at = y.at(mark);
    svg += fmt::format("<line class=\"grid\" x1=\"{1:.1f}\" y1=\"{0:.1f}\" x2=\"{2:.1f}\" y2=\"{0:.1f}\"/>"
                       "<text x=\"{3:.1f}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                       at, x.begin, x.end, x.begin - 6, at + 4, label(mark));
  }
  svg += fmt::format("<path class=\"axis\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n", x.begin, y.end, y.begin,
                     x.end);
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (x.begin + x.end) / 2,
                     chart.height - 8, escaped(chart.x_label));
  svg +=
      fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                  (y.begin + y.end) / 2, escaped(chart.y_label));
  return svg;
}

std::string fill(const ChartSeries& series, const char* colour) {
  return series.hollow ? "class=\"hollow\"" : fmt::format("fill=\"{}\"", colour);
}

std::string draw_series(const ChartSeries& series, const char* colour, const Axis& x, const Axis& y) {
  std::string svg, path;
  for (size_t i = 0; i < series.points.size(); ++i) {
    const auto [px, py] = series.points[i];
    if ((x.log && px <= 0) || (y.log && py <= 0)) continue;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.at(px), y.at(py));
    if (!series.marks) continue;
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" {} stroke=\"{}\">", x.at(px), y.at(py),
                       fill(series, colour), colour);
    if (i < series.notes.size()) svg += "<title>" + escaped(series.notes[i]) + "</title>";
    svg += "</circle>\n";
  }
  if (series.line && !path.empty()) {
    svg = fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>\n", path, colour) +
          svg;
  }
  return svg;
}

// The points' labels, each above its point, but for those that would lie on another one.
std::string draw_labels(const Chart& chart, const Axis& x, const Axis& y) {
  struct Place {
    double left, right, base;
  };
  constexpr double letter = 5.5, line = 11; // about the size of letters of 10 pixels
  std::vector<Place> taken;
  std::string svg;
  for (const ChartSeries& series : chart.series) {
    for (size_t i = 0; i < std::min(series.labels.size(), series.points.size()); ++i) {
      const auto [px, py] = series.points[i];
      if ((x.log && px <= 0) || (y.log && py <= 0)) continue;
      const double half = letter * static_cast<double>(series.labels[i].size()) / 2;
      const double middle = std::clamp(x.at(px), x.begin + half, std::max(x.begin + half, x.end - half));
      const Place place = {middle - half, middle + half, y.at(py) - 6};
      if (std::ranges::any_of(taken, [&](const Place& other) {
            return place.left < other.right && other.left < place.right &&
                   std::abs(place.base - other.base) < line;
          }))
        continue;
      taken.push_back(place);
      svg += fmt::format("<text class=\"point\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                         middle, place.base, escaped(series.labels[i]));
    }
  }
  return svg;
}

} // namespace

std::string draw(const Chart& chart) {
  const bool legends =
      std::ranges::any_of(chart.series, [](const ChartSeries& each) { return !each.name.empty(); });
  const double legend_width = legends ? 190 : 20;
  Axis x = around(chart, true), y = around(chart, false);
  x.begin = 76;
  x.end = chart.width - legend_width;
  y.begin = chart.height - 46;
  y.end = 36;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n<text class=\"title\" x=\"{3:.1f}\" y=\"20\">{2}</text>\n",
      chart.width, chart.height, escaped(chart.title), legends ? x.begin : 8);
  svg += draw_axes(chart, x, y);
  double legend = y.end + 8;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& series = chart.series[i];
    const char* colour = colours[i % colours.size()];
    svg += draw_series(series, colour, x, y);
    if (series.name.empty()) continue;
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" {} stroke=\"{}\"/>"
                       "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       x.end + 14, legend - 9, fill(series, colour), colour, x.end + 30, legend,
                       escaped(series.name));
    legend += 17;
  }
  return svg + draw_labels(chart, x, y) + "</svg>\n";
}

} // namespace pumice::command
