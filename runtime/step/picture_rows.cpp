#include "step/picture_rows.h"

#include <algorithm>

#include "step/patch_order.h"

namespace pumice {

namespace {

// Rows are in the order of their windows.
std::vector<float> ordered_rows(const PatchGroups& groups, const PatchGrid& grid, std::vector<float> all,
                                size_t columns) {
  const std::vector<uint32_t> squares = ordered_squares(grid, groups);
  std::vector<float> rows(std::min(all.size(), squares.size() * columns));
  for (size_t i = 0; (i + 1) * columns <= rows.size(); ++i) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(i * columns);
    std::copy_n(from, columns, rows.begin() + static_cast<ptrdiff_t>(squares[i] * columns));
  }
  return rows;
}

} // namespace

std::vector<float> rows_of_picture(const PictureTokens& shape, const EncoderShape& tower,
                                   const PatchGrid& grid, std::vector<float> all, size_t columns) {
  if (tower.patch_groups) return ordered_rows(*tower.patch_groups, grid, std::move(all), columns);
  const size_t skipped = std::min(columns * shape.skipped, all.size());
  all.erase(all.begin(), all.begin() + static_cast<ptrdiff_t>(skipped));
  all.resize(std::min(columns * shape.rows, all.size()));
  return all;
}

} // namespace pumice
