#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pumice::command {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::vector<std::string> notes; // tooltips, one for each point; may be empty
  bool line = true;
  bool marks = true;
  bool hollow = false;
};

// A chart, drawn as SVG without external resources. Linear axes include zero.
struct Chart {
  std::string title;
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<ChartSeries> series;
  int width = 760, height = 380;
};
std::string draw(const Chart& chart);

// The text with the characters that SVG and HTML reserve escaped, and control characters as spaces.
std::string escaped(const std::string& text);

// The marks of a linear axis from `low` to `high`: about `about` multiples of 1, 2 or 5 times a power of ten.
std::vector<double> axis_marks(double low, double high, int about);

} // namespace pumice::command
