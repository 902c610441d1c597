#pragma once

#include <array>

#include "media/image.h"

namespace pumice {

// Filters for resizing. The numbers are those of Python's PIL and of preprocessor_config.json.
enum class Resampling : uint32_t {
  nearest = 0,
  lanczos = 1,
  bilinear = 2,
  bicubic = 3,
  box = 4,
  hamming = 5
};

// A rectangle of a picture, in pixels. It may reach beyond the picture.
struct Window {
  int64_t left = 0, top = 0;
  uint32_t width = 0, height = 0;
  std::array<uint8_t, 3> outside = {}; // the pixels there
};

// Resizes a picture a line at a time, see resize().
class Resizing {
public:
  // `image` has to stay until it is done.
  Resizing(const Image& image, uint64_t width, uint64_t height, Resampling resampling, const Window& window);

  // Computes another line. False: it is done.
  bool advance();
  Image take() { return std::move(result_); }

private:
  // The source pixels of one result pixel: the first one, and a weight for each.
  struct Taps {
    uint32_t first = 0;
    std::vector<int32_t> weights;
  };
  static std::vector<Taps> make_taps(uint32_t from, uint64_t to, uint64_t begin, uint64_t end,
                                     Resampling resampling);
  static void blend(const Taps& taps, const uint8_t* source, size_t stride, uint8_t* out);
  void resize_across();
  void resize_down();

  const Image* image_;
  Image result_;
  std::vector<Taps> across_, down_;
  size_t left_ = 0, top_ = 0; // of the picture in the window
  std::array<uint8_t, 3> outside_;
  uint32_t first_row_ = 0, row_count_ = 0; // source rows that are needed
  std::vector<uint8_t> lines_;             // those that are resized across
  uint32_t line_ = 0;                      // of them, and then of the result
};

// Resizes `image` to width x height and returns the pixels of `window`.
// Only the window is computed, so the cost depends on its size and not on width x height. As in PIL, the
// filter is widened when a picture shrinks, so that no pixel is skipped, and results are rounded to 8 bits
// after each direction.
Image resize(const Image& image, uint64_t width, uint64_t height, Resampling resampling,
             const Window& window);

} // namespace pumice
