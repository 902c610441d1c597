#pragma once

#include "media/image.h"
#include "media/resize.h"

#include <array>
#include <optional>

namespace pumice {

// What a model's preprocessor_config.json says is done to a picture before the model sees it.
struct ImagePreparation {
  bool resizes = true;
  std::optional<uint32_t> shortest_edge; // resized to this with its proportions kept, or else
  uint32_t height = 0, width = 0;        // to this whatever its proportions
  Resampling resampling = Resampling::bilinear;
  bool crops = false; // the middle, with zeros around what is too small
  uint32_t crop_height = 0, crop_width = 0;
  float scale = 1.0F / 255; // applied to 8-bit values
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F};
  std::array<float, 3> deviation = {0.5F, 0.5F, 0.5F};
};

// Reads FOLDER/preprocessor_config.json for a model that takes pictures of this size; without the file, the
// picture is resized to it (bilinear) and normalised to -1 ... 1, as ViT does. Errors: a field of the wrong
// kind, a step that is not known here, or a result of another size than the model's.
Result<ImagePreparation> read_image_preparation(const std::filesystem::path& folder, uint32_t height,
                                                uint32_t width);

// pixel_values: [3, height, width] in planes of red, green and blue. `name` is the picture's, for the error
// when it is not of the model's size and nothing is said about resizing it.
Result<std::vector<float>> prepare(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name);

} // namespace pumice
