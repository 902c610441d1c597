#include "media/gradual_preparation.h"

#include <utility>

namespace pumice {

GradualPreparation::GradualPreparation(std::shared_ptr<const Image> image,
                                       const ImagePreparation& preparation, PicturePlan plan)
    : whole_(std::move(image)), resampling_(preparation.resampling), patches_(preparation.patches),
      plan_(std::move(plan)) {
  for (size_t colour = 0; colour < 3; ++colour) {
    for (size_t value = 0; value < 256; ++value)
      values_of_[colour][value] = (static_cast<float>(value) * preparation.scale - preparation.mean[colour]) /
                                  preparation.deviation[colour];
  }
}

bool GradualPreparation::advance() {
  const size_t wholes = plan_.wholes.size();
  if (resizing_) {
    if (resizing_->advance()) return true;
    Image resized = resizing_->take();
    resizing_.reset();
    if (resized_ < wholes) {
      whole_ = std::make_shared<const Image>(std::move(resized));
      ++resized_;
    } else {
      part_ = std::move(resized);
      piece_ = 0;
      values_.emplace_back().reserve(size_t{part_.width} * part_.height * 3 *
                                     (patches_ ? patches_->copies : 1));
    }
    return true;
  }
  if (resized_ >= wholes && values_.size() > resized_ - wholes) { // a part is resized, and not normalised yet
    if (!normalise()) ++resized_;
    return true;
  }
  if (resized_ == wholes + plan_.parts.size()) {
    whole_.reset();
    return false;
  }
  begin_resize();
  return true;
}

void GradualPreparation::begin_resize() {
  if (resized_ < plan_.wholes.size()) {
    const PictureSize& size = plan_.wholes[resized_];
    resizing_.emplace(*whole_, size.width, size.height, resampling_, Window{0, 0, size.width, size.height});
  } else {
    const PicturePlan::Part& part = plan_.parts[resized_ - plan_.wholes.size()];
    resizing_.emplace(*whole_, part.width, part.height, resampling_, part.window);
  }
}

// Adds the values of the part's next piece: a line of a plane, or a square of patches. False: it was the
// last.
bool GradualPreparation::normalise() {
  const uint32_t piece = piece_++;
  if (!patches_) {
    add_line(piece / part_.height, piece % part_.height, 0, part_.width);
    return piece_ < 3 * part_.height;
  }
  const uint32_t edge = patches_->patch, across = part_.width / patches_->square();
  for (uint32_t patch = 0; patch < patches_->merge * patches_->merge; ++patch) {
    const uint32_t left = piece % across * patches_->square() + patch % patches_->merge * edge;
    const uint32_t top = piece / across * patches_->square() + patch / patches_->merge * edge;
    for (uint32_t colour = 0; colour < 3; ++colour) {
      for (uint32_t copy = 0; copy < patches_->copies; ++copy) {
        for (uint32_t y = 0; y < edge; ++y) add_line(colour, top + y, left, edge);
      }
    }
  }
  return piece_ < across * (part_.height / patches_->square());
}

void GradualPreparation::add_line(uint32_t colour, uint32_t y, uint32_t x, uint32_t count) {
  const uint8_t* pixel = part_.pixels.data() + (size_t{y} * part_.width + x) * 3 + colour;
  std::vector<float>& values = values_.back();
  for (uint32_t i = 0; i < count; ++i) values.push_back(values_of_[colour][pixel[size_t{i} * 3]]);
}

} // namespace pumice
