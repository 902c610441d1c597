#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernel/cells/cells.h"

// Pictures in cells, in plain C++ and 64 bits.

// Where a pixel lies among those of its picture, which follow each other cell by cell: each cell's four
// squares, the upper left one first, then the one below, each in the same way.
inline size_t cell_pixel(const pumice::CellLayout& cells, uint32_t y, uint32_t x) {
  if (cells.whole) return size_t{y} * cells.width + x;
  size_t at = y / cells.side * cells.across() + x / cells.side;
  for (uint32_t side = cells.side / 2; side > 0; side /= 2) at = 4 * at + 2 * (x / side % 2) + y / side % 2;
  return at;
}

// All channels of [height, width, channels] in that order, with zeros in pixels that the picture lacks.
inline std::vector<float> in_cells(const pumice::CellLayout& cells, std::span<const float> picture,
                                   size_t channels) {
  std::vector<float> result(cells.count() * cells.pixels() * channels);
  for (uint32_t y = 0; y < cells.height; ++y) {
    for (uint32_t x = 0; x < cells.width; ++x) {
      const auto from = picture.begin() + static_cast<ptrdiff_t>((size_t{y} * cells.width + x) * channels);
      std::copy_n(from, channels,
                  result.begin() + static_cast<ptrdiff_t>(cell_pixel(cells, y, x) * channels));
    }
  }
  return result;
}

// One picture, [height, width, channels] each.
struct AttendedPicture {
  std::span<const float> query, key, value;
  std::span<const float> table, outer_key, outer_value;
  std::span<const float> scores = {}; // of distances, of each pixel's head
};

// The picture is filled up to whole windows and moved up and to the left by the shift, what leaves it there
// comes back at the other edge, and then it is cut into windows.
inline std::vector<float> window_attention_reference(const pumice::CellAttention& own,
                                                     const AttendedPicture& of, size_t channels) {
  const uint32_t window = own.window, span = 2 * window - 1;
  const uint32_t height = (own.cells.height + window - 1) / window * window,
                 width = (own.cells.width + window - 1) / window * window;
  const size_t dim = channels / own.heads;
  const auto part = [&](uint32_t place, uint32_t size) {
    return own.shift == 0 || place < size - window ? 0 : place < size - own.shift ? 1 : 2;
  };
  // A pixel's columns after the move, where y and x are.
  const auto pixel = [&](std::span<const float> picture, std::span<const float> outer, uint32_t y,
                         uint32_t x) {
    y = (y + own.shift) % height;
    x = (x + own.shift) % width;
    if (y >= own.cells.height || x >= own.cells.width) return outer;
    return picture.subspan((size_t{y} * own.cells.width + x) * channels, channels);
  };
  std::vector<float> result(size_t{own.cells.height} * own.cells.width * channels);
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      const uint32_t to_y = (y + own.shift) % height, to_x = (x + own.shift) % width;
      if (to_y >= own.cells.height || to_x >= own.cells.width) continue;
      const auto query = pixel(of.query, of.outer_key, y, x);
      for (size_t head = 0; head < own.heads; ++head) {
        std::vector<double> shares, sum(dim);
        const uint32_t top = y / window * window, left = x / window * window;
        for (uint32_t i = 0; i < window * window; ++i) {
          const uint32_t ky = top + i / window, kx = left + i % window;
          const auto key = pixel(of.key, of.outer_key, ky, kx);
          double score = 0;
          for (size_t d = 0; d < dim; ++d) score += double{query[head * dim + d]} * key[head * dim + d];
          score /= std::sqrt(static_cast<double>(dim));
          score += of.table[((y + window - 1 - ky) * span + x + window - 1 - kx) * own.heads + head];
          if (!of.scores.empty()) {
            const size_t first =
                ((size_t{to_y} * own.cells.width + to_x) * own.heads + head) * own.score_columns();
            score +=
                of.scores[first + y + window - 1 - ky] + of.scores[first + 2 * window + x + window - 1 - kx];
          }
          if (part(y, height) != part(ky, height) || part(x, width) != part(kx, width)) score -= 100;
          shares.push_back(std::exp(score));
        }
        double total = 0;
        for (const double share : shares) total += share;
        for (uint32_t i = 0; i < window * window; ++i) {
          const auto value = pixel(of.value, of.outer_value, top + i / window, left + i % window);
          for (size_t d = 0; d < dim; ++d) sum[d] += shares[i] / total * value[head * dim + d];
        }
        for (size_t d = 0; d < dim; ++d)
          result[(size_t{to_y} * own.cells.width + to_x) * channels + head * dim + d] =
              static_cast<float>(sum[d]);
      }
    }
  }
  return result;
}
