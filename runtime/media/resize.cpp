#include "media/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pumice {

namespace {

double sinc(double x) {
  x *= std::numbers::pi;
  return x == 0 ? 1 : std::sin(x) / x;
}

// A filter kernel. It is zero beyond `support` and is never called for values beyond it.
struct Filter {
  double support;
  double (*weight)(double x);
};

double box(double x) {
  return x > -0.5 && x <= 0.5 ? 1 : 0;
}

double triangle(double x) {
  return std::max(0.0, 1 - std::abs(x));
}

double hamming(double x) {
  return std::abs(x) >= 1 ? 0 : sinc(x) * (0.54 + 0.46 * std::cos(x * std::numbers::pi));
}

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

double lanczos(double x) {
  return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

Filter filter_of(Resampling resampling) {
  switch (resampling) {
  case Resampling::lanczos:
    return {3, lanczos};
  case Resampling::bicubic:
    return {2, cubic};
  case Resampling::box:
    return {0.5, box};
  case Resampling::hamming:
    return {1, hamming};
  default:
    return {1, triangle};
  }
}

constexpr int weight_bits = 22; // weighted sums of 8-bit pixels fit a signed 32-bit number

// The source pixels of one result pixel: the first one, and a weight for each.
struct Taps {
  uint32_t first = 0;
  std::vector<int32_t> weights;
};

// The taps of pixels [begin, end) of a line of `from` pixels that is resized to `to` pixels.
std::vector<Taps> make_taps(uint32_t from, uint64_t to, uint64_t begin, uint64_t end, Resampling resampling) {
  std::vector<Taps> line(end - begin);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const Filter filter = filter_of(resampling);
  const double stretch = std::max(scale, 1.0);
  for (uint64_t pixel = begin; pixel < end; ++pixel) {
    Taps& taps = line[pixel - begin];
    const double centre = (static_cast<double>(pixel) + 0.5) * scale;
    if (resampling == Resampling::nearest || from == to) {
      taps = {std::min(static_cast<uint32_t>(centre), from - 1), {1 << weight_bits}};
      continue;
    }
    const double reach = filter.support * stretch;
    const auto first = static_cast<uint32_t>(std::max(centre - reach + 0.5, 0.0));
    const auto last = static_cast<uint32_t>(std::min(centre + reach + 0.5, static_cast<double>(from)));
    std::vector<double> weights;
    double sum = 0;
    for (uint32_t source = first; source < last; ++source) {
      weights.push_back(filter.weight((source - centre + 0.5) / stretch));
      sum += weights.back();
    }
    taps.first = first;
    for (const double weight : weights)
      taps.weights.push_back(
          static_cast<int32_t>(std::lround(weight / (sum == 0 ? 1 : sum) * (1 << weight_bits))));
  }
  return line;
}

// Computes one pixel from its taps. Its source pixels lie `stride` bytes apart.
void blend(const Taps& taps, const uint8_t* source, size_t stride, uint8_t* out) {
  int32_t sums[3] = {1 << (weight_bits - 1), 1 << (weight_bits - 1), 1 << (weight_bits - 1)};
  for (const int32_t weight : taps.weights) {
    for (size_t colour = 0; colour < 3; ++colour) sums[colour] += weight * source[colour];
    source += stride;
  }
  for (size_t colour = 0; colour < 3; ++colour)
    out[colour] = static_cast<uint8_t>(std::clamp(sums[colour] >> weight_bits, 0, 255));
}

// The range of [0, size) that is inside a window that begins at `first` and has a length of `count`.
struct VisibleRange {
  uint64_t begin, end;
  VisibleRange(int64_t first, uint32_t count, uint64_t size)
      : begin(static_cast<uint64_t>(std::max<int64_t>(first, 0))),
        end(static_cast<uint64_t>(std::clamp<int64_t>(first + count, 0, static_cast<int64_t>(size)))) {
    end = std::max(begin, end);
  }
};

} // namespace

Image resize(const Image& image, uint64_t width, uint64_t height, Resampling resampling,
             const Window& window) {
  Image result{window.width, window.height, std::vector<uint8_t>(size_t{window.width} * window.height * 3)};
  const VisibleRange columns(window.left, window.width, width), rows(window.top, window.height, height);
  if (columns.begin == columns.end || rows.begin == rows.end) return result;
  const std::vector<Taps> across = make_taps(image.width, width, columns.begin, columns.end, resampling);
  const std::vector<Taps> down = make_taps(image.height, height, rows.begin, rows.end, resampling);

  // Resizes each needed source row horizontally.
  const uint32_t first_row = down.front().first;
  const uint32_t row_count =
      down.back().first + static_cast<uint32_t>(down.back().weights.size()) - first_row;
  const size_t stride = across.size() * 3;
  std::vector<uint8_t> lines(row_count * stride);
  for (size_t row = 0; row < row_count; ++row) {
    const uint8_t* source = image.pixels.data() + (first_row + row) * image.width * 3;
    for (size_t pixel = 0; pixel < across.size(); ++pixel)
      blend(across[pixel], source + size_t{across[pixel].first} * 3, 3,
            lines.data() + row * stride + pixel * 3);
  }
  const size_t left = columns.begin - static_cast<uint64_t>(window.left);
  const size_t top = rows.begin - static_cast<uint64_t>(window.top);
  for (size_t row = 0; row < down.size(); ++row)
    for (size_t pixel = 0; pixel < across.size(); ++pixel)
      blend(down[row], lines.data() + (down[row].first - first_row) * stride + pixel * 3, stride,
            result.pixels.data() + ((top + row) * window.width + left + pixel) * 3);
  return result;
}

} // namespace pumice
