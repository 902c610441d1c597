#pragma once

#include "media/preprocess.h"

namespace pumice {

// How a picture becomes the whole, in about as many pixels as the slicing says, and where it has more of them
// slices of about its proportions, row by row, each in as many (Guo et al., LLaVA-UHD, 2024). All are in
// patches, in whole squares. An error where a picture is too thin for that.
Result<PicturePlan> plan_slices(const PictureSize& size, const ImagePreparation& preparation,
                                const std::string& name);

} // namespace pumice
