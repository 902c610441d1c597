#pragma once

#include "media/image.h"

namespace pumice {

// Attention weights to be drawn: how much each output token (a row) looked at each source token (a column).
struct HeatMap {
  std::string title;                  // may be empty
  std::string row_axis = "output";    // what the rows are
  std::string column_axis = "source"; // what the columns are
  std::vector<std::string> rows;      // UTF-8, one a row; an empty one leaves the row without a label
  std::vector<std::string> columns;   // for pictures and sounds, one every so many patches or seconds
  std::span<const float> weights;     // [rows, columns]
  bool scale_to_largest = false;      // the darkest colour is the largest weight's, and not 1
};

// The most rows, and columns, that a picture has room for.
inline constexpr size_t most_heat_map_tokens = 3600;

// Source tokens run along the top, output tokens down the left. From almost white to dark, equal steps of
// weight look equally far apart; a legend says which is which, and where cells are large they hold their
// numbers. Weights are drawn as they are. Labels that would overlap are left out. Letters of left-to-right
// alphabets are drawn (media/font.h); any other character is a small box with its Unicode number.
Result<Image> draw_heat_map(const HeatMap& map);

} // namespace pumice
