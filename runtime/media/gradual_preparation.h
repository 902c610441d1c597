#pragma once

#include <array>
#include <memory>
#include <optional>

#include "media/preprocess.h"

namespace pumice {

// A picture that becomes what a model reads a few lines at a time, so that whoever has little time can go on
// with it later.
class GradualPreparation {
public:
  // `plan`: of the picture's size.
  GradualPreparation(std::shared_ptr<const Image> image, const ImagePreparation& preparation,
                     PicturePlan plan);

  // Does a little more of it: some ten microseconds where lines have a thousand pixels. False: it is done.
  bool advance();
  // The values of each part: planes for red, green and blue, or those of each patch, see PatchedPicture.
  std::vector<std::vector<float>> take() { return std::move(values_); }

private:
  void begin_resize();
  bool normalise();
  void add_line(uint32_t colour, uint32_t y, uint32_t x, uint32_t count);

  std::shared_ptr<const Image> whole_;
  Resampling resampling_;
  std::optional<PatchCutting> patches_;
  std::array<std::array<float, 256>, 3> values_of_; // of each colour's 8-bit values
  PicturePlan plan_;
  size_t resized_ = 0; // of the plan's wholes and parts
  std::optional<Resizing> resizing_;
  Image part_;
  uint32_t piece_ = 0; // of the part
  std::vector<std::vector<float>> values_;
};

} // namespace pumice
