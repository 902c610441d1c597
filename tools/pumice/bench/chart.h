#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pumice::command {

struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
  std::vector<std::string> notes; // of each point, shown where the pointer rests; or none
  bool line = true;
  bool marks = true;
  bool hollow = false;
};

// A chart as SVG, complete in itself. Linear axes have zero on them.
struct Chart {
  std::string title;
  std::string x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<ChartSeries> series;
  int width = 760, height = 380;
};
std::string draw(const Chart& chart);

// Text inside of markup.
std::string escaped(const std::string& text);

// Where a linear axis has its marks: multiples of 1, 2 or 5 times a power of ten, about so many, inside.
std::vector<double> axis_marks(double low, double high, int about);

} // namespace pumice::command
