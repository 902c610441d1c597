#include "media/patches.h"

#include <algorithm>
#include <cmath>
#include <new>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint32_t most_proportion = 200; // as the reference has it

// The squares of a picture whose edges are at most so long, each square begun a whole one.
PatchGrid squares_within(uint32_t height, uint32_t width, uint32_t longest, uint32_t square) {
  const double shrunk =
      std::max({1.0, static_cast<double>(height) / longest, static_cast<double>(width) / longest});
  const auto squares = [&](uint32_t edge) {
    const auto pixels = static_cast<uint32_t>(std::floor(edge / shrunk));
    return (std::max(pixels, 1u) - 1) / square + 1;
  };
  return {squares(height), squares(width)};
}

// As Pixtral's processor resizes, and smaller where that were more pixels than may be.
PatchGrid squares_of_edge(uint32_t height, uint32_t width, const PatchCutting& cutting) {
  const uint32_t square = cutting.square();
  for (uint32_t longest = cutting.longest_edge;; longest -= square) {
    const PatchGrid squares = squares_within(height, width, longest, square);
    if (longest <= square || squares.count() * square * square <= cutting.max_pixels) return squares;
  }
}

// The squares of a picture that is made as large as may be, as Gemma 4's processor has it: a thin one has a
// line of whole squares.
PatchGrid squares_that_fill(uint32_t height, uint32_t width, const PatchCutting& cutting) {
  const double square = cutting.square(), pixels = static_cast<double>(height) * width;
  const double factor = std::sqrt(static_cast<double>(cutting.max_pixels) / pixels);
  const auto squares = [&](uint32_t edge) {
    return static_cast<uint32_t>(std::floor(factor * edge / square));
  };
  const auto most = static_cast<uint32_t>(cutting.max_pixels / cutting.square() / cutting.square());
  const uint32_t down = squares(height), across = squares(width);
  if (down == 0) return {1, std::clamp(width / height, 1u, most)};
  if (across == 0) return {std::clamp(height / width, 1u, most), 1};
  return {down, across};
}

} // namespace

Result<PatchGrid> patch_grid_of(uint32_t height, uint32_t width, const PatchCutting& cutting,
                                const std::string& name) {
  if (cutting.longest_edge > 0) {
    const PatchGrid squares = squares_of_edge(height, width, cutting);
    return PatchGrid{squares.height * cutting.merge, squares.width * cutting.merge};
  }
  if (cutting.fills) {
    const PatchGrid squares = squares_that_fill(height, width, cutting);
    return PatchGrid{squares.height * cutting.merge, squares.width * cutting.merge};
  }
  if (std::max(height, width) > uint64_t{most_proportion} * std::min(height, width)) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: one edge of {} x {} pixels is more than {} times the other, which the model "
                    "does not read",
                    name, width, height, most_proportion)};
  }
  if (const uint32_t square = cutting.square(); cutting.grows_edges && std::min(height, width) < square) {
    const double grown = static_cast<double>(square) / std::min(height, width);
    height = static_cast<uint32_t>(height * grown); // 1 less than it may seem, as the reference has it
    width = static_cast<uint32_t>(width * grown);
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

Result<PicturePlan> plan_patches(const PictureSize& size, const ImagePreparation& preparation,
                                 const std::string& name) {
  const PatchCutting& cutting = *preparation.patches;
  PatchGrid grid;
  if (preparation.resizes) {
    PUMICE_TRY(grid, patch_grid_of(size.height, size.width, cutting, name));
  } else {
    grid = {size.height / cutting.patch, size.width / cutting.patch};
  }
  const uint32_t height = grid.height * cutting.patch, width = grid.width * cutting.patch;
  if (!preparation.resizes && (grid.count() == 0 || height != size.height || width != size.width ||
                               height % cutting.square() != 0 || width % cutting.square() != 0)) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: expected edges that are multiples of {}, as the model does not resize, found "
                    "{} x {}",
                    name, cutting.square(), size.width, size.height)};
  }
  PicturePlan plan;
  plan.parts = {{width, height, {0, 0, width, height}, grid}};
  return plan;
}

Result<PatchedPicture> cut_patches(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name) try {
  PUMICE_TRY(const PicturePlan plan, plan_patches({image.height, image.width}, preparation, name));
  return PatchedPicture{plan.parts.front().grid, std::move(prepare_parts(image, preparation, plan).front())};
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory to cut it into patches", name)};
}

} // namespace pumice
