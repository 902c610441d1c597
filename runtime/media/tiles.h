#pragma once

#include "media/preprocess.h"

namespace pumice {

// A picture as a model of tiles reads it: each in the form of prepare()'s result.
struct TiledPicture {
  uint32_t rows = 0, columns = 0;           // of tiles; 0: the picture was not cut
  std::vector<std::vector<float>> pictures; // tiles row by row, then the whole
};

// The plan of prepare_tiles(), with its errors.
Result<PicturePlan> plan_tiles(const PictureSize& size, const ImagePreparation& preparation,
                               const std::string& name);

// How a picture becomes the whole, in about as many pixels as the slicing says, and where it has more of them
// slices of about its proportions, row by row, each in as many (Guo et al., LLaVA-UHD, 2024). All are in
// patches, in whole squares. An error where a picture is too thin for that.
Result<PicturePlan> plan_slices(const PictureSize& size, const ImagePreparation& preparation,
                                const std::string& name);

// Resizes a picture and cuts it, as the preparation's tiling says; without one, prepare() alone.
Result<TiledPicture> prepare_tiles(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name);

} // namespace pumice
