#include "model/picture_preparation.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/vocabulary.h"

namespace pumice {

Result<ImagePreparation> picture_preparation(const ModelFile& file, const EncoderShape& shape,
                                             uint32_t most_patches) {
  const std::vector<uint32_t>& size = shape.input_shape; // [channels, height, width]
  if (size[0] != 3) {
    return Error{Code::unsupported,
                 fmt::format("{}: the model reads pictures of {} channels; only those of 3 (red, green and "
                             "blue) can be made from a file",
                             file.path(), size[0])};
  }
  if (!shape.patch_groups) {
    if (shape.preparation) return *shape.preparation;
    return read_image_preparation(folder_of(file), size[1], size[2]);
  }
  PatchCutting cutting = shape.cutting();
  if (most_patches > 0) cutting.max_pixels = uint64_t{most_patches} * cutting.patch * cutting.patch;
  if (!shape.preparation) return read_patch_preparation(folder_of(file), cutting);
  ImagePreparation preparation = *shape.preparation;
  PatchCutting& own = *preparation.patches;
  own.max_pixels = std::min(own.max_pixels, cutting.max_pixels);
  own.min_pixels = std::min(own.min_pixels, own.max_pixels);
  return preparation;
}

} // namespace pumice
