#pragma once

#include "media/preprocess.h"

namespace pumice {

// A picture in patches.
struct PatchedPicture {
  PatchGrid grid;
  // Of each patch: squares of patches row by row, and the patches of each in turn. A patch has, for each
  // colour and then each copy, its rows of pixels.
  std::vector<float> values;
};

// The edges of a picture that is resized to whole squares: about its own size and proportions, and within the
// numbers of pixels, or the longest edge. An error if one edge is more than 200 times the other, unless there
// is a longest edge, or a picture is made as large as may be.
Result<PatchGrid> patch_grid_of(uint32_t height, uint32_t width, const PatchCutting& cutting,
                                const std::string& name);

// The plan of cut_patches(), with its errors.
Result<PicturePlan> plan_patches(const PictureSize& size, const ImagePreparation& preparation,
                                 const std::string& name);

// Resizes a picture and cuts it, as preparation.patches says.
Result<PatchedPicture> cut_patches(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name);

} // namespace pumice
