#pragma once

#include <string>
#include <vector>

#include "media/preprocess.h"
#include "step/encoder.h"
#include "text/chat/picture_markup.h"

namespace pumice {

// A picture for a decoder's prompt: tiles or slices of it, if the model reads them, and the whole, in the
// order of the prompt.
struct PreparedPicture {
  PictureGrid grid;
  std::vector<EncoderInput> inputs;
};

// How a picture of this size is prepared as the model's tower reads it, by GradualPreparation or by
// prepare_for_prompt(). `name` names it in errors.
Result<PicturePlan> plan_for_prompt(const PictureSize& size, const ImagePreparation& preparation,
                                    const std::string& name);
// How the prompt's text shows what comes of that.
PictureGrid grid_of(const PicturePlan& plan, const ImagePreparation& preparation);
Result<PreparedPicture> prepare_for_prompt(const Image& image, const ImagePreparation& preparation,
                                           const std::string& name);

} // namespace pumice
