#pragma once

#include "media/image.h"

namespace pumice {

// Attention weights to draw: how much each output token (a row) attended to each source token (a column).
struct HeatMap {
  std::string title;                  // may be empty
  std::string row_axis = "output";    // title of the rows
  std::string column_axis = "source"; // title of the columns
  std::vector<std::string> rows;      // a label for each row, UTF-8; an empty one is not drawn
  std::vector<std::string> columns;   // a label for each column
  std::span<const float> weights;     // [rows, columns]
  bool scale_to_largest = false;      // the darkest colour is the largest weight instead of 1
};

// The largest number of rows or columns that fits a picture.
inline constexpr size_t max_heat_map_tokens = 3600;

// Draws a heat map. Source tokens run along the top, output tokens down the left side. Colours go from almost
// white to dark; equal differences of weight look equally large, and a legend shows the scale. Large cells
// also show the weight as a number. Labels that would overlap are left out. A character that the fonts lack
// (media/font.h, media/system_fonts.h) is drawn as a small box with its Unicode number. Errors:
// invalid_argument for too many or no rows or columns, weights of another number, or weights that are not
// finite.
Result<Image> draw_heat_map(const HeatMap& map);
// The same as an SVG file, whose text is drawn with the fonts of who shows it. Error: invalid_argument, too,
// for more than max_svg_cells weights.
inline constexpr size_t max_svg_cells = 200'000;
Result<std::string> heat_map_svg(const HeatMap& map);
// The characters of its labels that draw_heat_map() draws as boxes, each once.
std::u32string boxes_in(const HeatMap& map);

} // namespace pumice
