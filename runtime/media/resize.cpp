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

// The taps of pixels [begin, end) of a line of `from` pixels that is resized to `to` pixels.
std::vector<Resizing::Taps> Resizing::make_taps(uint32_t from, uint64_t to, uint64_t begin, uint64_t end,
                                                Resampling resampling) {
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
void Resizing::blend(const Taps& taps, const uint8_t* source, size_t stride, uint8_t* out) {
  int32_t sums[3] = {1 << (weight_bits - 1), 1 << (weight_bits - 1), 1 << (weight_bits - 1)};
  for (const int32_t weight : taps.weights) {
    for (size_t colour = 0; colour < 3; ++colour) sums[colour] += weight * source[colour];
    source += stride;
  }
  for (size_t colour = 0; colour < 3; ++colour)
    out[colour] = static_cast<uint8_t>(std::clamp(sums[colour] >> weight_bits, 0, 255));
}

Resizing::Resizing(const Image& image, uint64_t width, uint64_t height, Resampling resampling,
                   const Window& window)
    : image_(&image), result_{window.width, window.height, {}}, outside_(window.outside) {
  result_.pixels.reserve(size_t{window.width} * window.height * 3);
  const VisibleRange columns(window.left, window.width, width), rows(window.top, window.height, height);
  if (columns.begin == columns.end || rows.begin == rows.end) return;
  across_ = make_taps(image.width, width, columns.begin, columns.end, resampling);
  down_ = make_taps(image.height, height, rows.begin, rows.end, resampling);
  first_row_ = down_.front().first;
  row_count_ = down_.back().first + static_cast<uint32_t>(down_.back().weights.size()) - first_row_;
  lines_.reserve(row_count_ * across_.size() * 3);
  left_ = columns.begin - static_cast<uint64_t>(window.left);
  top_ = rows.begin - static_cast<uint64_t>(window.top);
}

bool Resizing::advance() {
  if (line_ == row_count_ + result_.height) return false;
  line_ < row_count_ ? resize_across() : resize_down();
  ++line_;
  return true;
}

// The next source row that is needed.
void Resizing::resize_across() {
  const uint8_t* source = image_->pixels.data() + size_t{first_row_ + line_} * image_->width * 3;
  const size_t begin = lines_.size();
  lines_.resize(begin + across_.size() * 3);
  for (size_t pixel = 0; pixel < across_.size(); ++pixel)
    blend(across_[pixel], source + size_t{across_[pixel].first} * 3, 3, lines_.data() + begin + pixel * 3);
}

// The next row of the result.
void Resizing::resize_down() {
  const size_t begin = result_.pixels.size(), row = line_ - row_count_, stride = across_.size() * 3;
  for (uint32_t pixel = 0; pixel < result_.width; ++pixel)
    result_.pixels.insert(result_.pixels.end(), outside_.begin(), outside_.end());
  if (row < top_ || row >= top_ + down_.size()) return;
  const Taps& taps = down_[row - top_];
  for (size_t pixel = 0; pixel < across_.size(); ++pixel)
    blend(taps, lines_.data() + (taps.first - first_row_) * stride + pixel * 3, stride,
          result_.pixels.data() + begin + (left_ + pixel) * 3);
}

Image resize(const Image& image, uint64_t width, uint64_t height, Resampling resampling,
             const Window& window) {
  Resizing resizing(image, width, height, resampling, window);
  while (resizing.advance()) {
  }
  return resizing.take();
}

} // namespace pumice
