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
  bool whole = false;        // of whole numbers, such as counts
  double begin = 0, end = 1; // in pixels

  double at(double value) const {
    const double share = log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return begin + share * (end - begin);
  }
  std::vector<double> marks(int about) const {
    std::vector<double> result;
    if (!log) {
      result = axis_marks(low, high, about);
      if (whole) std::erase_if(result, [](double mark) { return mark != std::round(mark); });
      return result;
    }
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
  axis.whole = true;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ChartSeries& series : chart.series) {
    for (const auto& point : series.points) {
      const double value = x ? point.first : point.second;
      if (!std::isfinite(value) || (axis.log && value <= 0)) continue;
      axis.whole = axis.whole && value == std::round(value);
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

// The points' labels: each above, below or beside its point, where it lies on no point and no other label.
// One without such a place is left out.
std::string draw_labels(const Chart& chart, const Axis& x, const Axis& y) {
  struct Place {
    double left, right, base;
  };
  constexpr double letter = 5.5, line = 11, mark = 4; // letters of 10 pixels, and half of a point
  std::vector<Place> taken;
  std::string svg;
  for (const ChartSeries& series : chart.series) {
    if (!series.marks || series.labels.empty()) continue;
    for (const auto& [px, py] : series.points)
      taken.push_back({x.at(px) - mark, x.at(px) + mark, y.at(py) + mark});
  }
  for (const ChartSeries& series : chart.series) {
    for (size_t i = 0; i < std::min(series.labels.size(), series.points.size()); ++i) {
      const auto [px, py] = series.points[i];
      if ((x.log && px <= 0) || (y.log && py <= 0)) continue;
      const double half = letter * static_cast<double>(series.labels[i].size()) / 2, aside = half + mark + 3;
      for (const auto& [dx, dy] : {std::pair(0.0, -8.0), {0.0, 16.0}, {aside, 4.0}, {-aside, 4.0}}) {
        double middle = x.at(px) + dx;
        if (dx == 0) middle = std::clamp(middle, x.begin + half, std::max(x.begin + half, x.end - half));
        const Place place = {middle - half, middle + half, y.at(py) + dy};
        const bool outside = place.left < x.begin || place.right > x.end + 4 || place.base > y.begin;
        const auto meets = [&place](const Place& other) {
          return place.left < other.right && other.left < place.right &&
                 std::abs(place.base - other.base) < line;
        };
        if (outside || std::ranges::any_of(taken, meets)) continue;
        taken.push_back(place);
        svg +=
            fmt::format("<text class=\"point\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n",
                        middle, place.base, escaped(series.labels[i]));
        break;
      }
    }
  }
  return svg;
}

// The names of the series in lines below the title, so that the plot has the whole width. `bottom` becomes
// the end of the last line.
std::string draw_legend(const Chart& chart, double& bottom) {
  constexpr double letter = 6.8, line = 18, box = 16, gap = 18, left = 8;
  double at = left, base = bottom + line;
  std::string svg;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const ChartSeries& series = chart.series[i];
    if (series.name.empty()) continue;
    const double width = box + letter * static_cast<double>(series.name.size());
    if (at > left && at + width > chart.width) {
      at = left;
      base += line;
    }
    const char* colour = colours[i % colours.size()];
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" {} stroke=\"{}\"/>"
                       "<text class=\"legend\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       at, base - 9, fill(series, colour), colour, at + box, base, escaped(series.name));
    at += width + gap;
    bottom = base;
  }
  return svg;
}

} // namespace

std::string draw(const Chart& chart) {
  double top = 24;
  const std::string legend = draw_legend(chart, top);
  Axis x = around(chart, true), y = around(chart, false);
  x.begin = 76;
  x.end = chart.width - 20;
  y.begin = chart.height - 46;
  y.end = top + 14;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\">\n<title>{2}</title>\n<text class=\"title\" x=\"{3:.1f}\" y=\"20\">{2}</text>\n",
      chart.width, chart.height, escaped(chart.title), 8.0);
  svg += legend + draw_axes(chart, x, y);
  for (size_t i = 0; i < chart.series.size(); ++i)
    svg += draw_series(chart.series[i], colours[i % colours.size()], x, y);
  return svg + draw_labels(chart, x, y) + "</svg>\n";
}

} // namespace pumice::command
