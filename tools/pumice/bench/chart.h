#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pumice::command {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::vector<std::string> notes;  // tooltips, one for each point; may be empty
  std::vector<std::string> labels; // beside the points, where there is room; may be empty
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
  int width = 640, height = 380;
};
std::string draw(const Chart& chart);

// The text with the characters that SVG and HTML reserve escaped, and control characters as spaces.
std::string escaped(const std::string& text);

} // namespace pumice::command
