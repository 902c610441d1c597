#include "media/patches.h"

#include <algorithm>
#include <cmath>
#include <new>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint32_t most_proportion = 200; // as the reference has it

// The values of a patch whose upper left pixel is at `left`, `top`.
void add_patch(const std::vector<float>& planes, uint32_t height, uint32_t width, const PatchCutting& cutting,
               uint32_t left, uint32_t top, std::vector<float>& values) {
  for (size_t colour = 0; colour < 3; ++colour) {
    for (uint32_t copy = 0; copy < cutting.copies; ++copy) {
      for (uint32_t y = 0; y < cutting.patch; ++y) {
        const auto row =
            planes.begin() + static_cast<ptrdiff_t>((colour * height + top + y) * size_t{width} + left);
        values.insert(values.end(), row, row + cutting.patch);
      }
    }
  }
}

} // namespace

Result<PatchGrid> patch_grid_of(uint32_t height, uint32_t width, const PatchCutting& cutting,
                                const std::string& name) {
  if (std::max(height, width) > uint64_t{most_proportion} * std::min(height, width)) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: one edge of {} x {} pixels is more than {} times the other, which the model "
                    "does not read",
                    name, width, height, most_proportion)};
  }
  const double square = cutting.square(), pixels = static_cast<double>(height) * width;
  const auto most = static_cast<double>(cutting.max_pixels), least = static_cast<double>(cutting.min_pixels);
  double down = std::nearbyint(height / square),
         across = std::nearbyint(width / square); // to even, as Python
  if (down * across * square * square > most) {
    const double shrunk = std::sqrt(pixels / most);
    down = std::max(1.0, std::floor(height / shrunk / square));
    across = std::max(1.0, std::floor(width / shrunk / square));
  } else if (down * across * square * square < least) {
    const double grown = std::sqrt(least / pixels);
    down = std::ceil(height * grown / square);
    across = std::ceil(width * grown / square);
  }
  return PatchGrid{static_cast<uint32_t>(down) * cutting.merge,
                   static_cast<uint32_t>(across) * cutting.merge};
}

Result<PatchedPicture> cut_patches(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name) try {
  const PatchCutting& cutting = *preparation.patches;
  PatchedPicture result;
  if (preparation.resizes) {
    PUMICE_TRY(result.grid, patch_grid_of(image.height, image.width, cutting, name));
  } else {
    result.grid = {image.height / cutting.patch, image.width / cutting.patch};
  }
  const uint32_t height = result.grid.height * cutting.patch, width = result.grid.width * cutting.patch;
  if (!preparation.resizes && (result.grid.count() == 0 || height != image.height || width != image.width ||
                               height % cutting.square() != 0 || width % cutting.square() != 0)) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: expected edges that are multiples of {}, as the model does not resize, found "
                    "{} x {}",
                    name, cutting.square(), image.width, image.height)};
  }
  const std::vector<float> planes =
      normalised(resize(image, width, height, preparation.resampling, {0, 0, width, height}), preparation);
  result.values.reserve(result.grid.count() * cutting.values());
  for (uint32_t top = 0; top < height; top += cutting.square()) {
    for (uint32_t left = 0; left < width; left += cutting.square()) {
      for (uint32_t patch = 0; patch < cutting.merge * cutting.merge; ++patch) {
        add_patch(planes, height, width, cutting, left + patch % cutting.merge * cutting.patch,
                  top + patch / cutting.merge * cutting.patch, result.values);
      }
    }
  }
  return result;
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory to cut it into patches", name)};
}

} // namespace pumice
