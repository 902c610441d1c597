#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "media/tiles.h"

namespace pumice {

namespace {

// The multiple that is nearest, to even ones as Python rounds, and at least one.
uint64_t nearest_multiple(double length, uint64_t of) {
  return std::max(static_cast<uint64_t>(std::nearbyint(length / static_cast<double>(of))), uint64_t{1}) * of;
}

// The pixels of a picture in whole squares.
struct Pixels {
  uint64_t height = 0, width = 0;
};

// Of about the picture's own size; or of about a square's of the slicing's edge, where `scales` or the
// picture has more pixels.
Pixels in_squares(double height, double width, const ImagePreparation& preparation, bool scales) {
  const double edge = preparation.slices->edge;
  if (scales || height * width > edge * edge) {
    const double aspect = width / height; // in whole pixels, as the reference has it
    height = std::floor(edge / std::sqrt(aspect));
    width = std::floor(height * aspect);
  }
  const uint32_t square = preparation.patches->square();
  return {nearest_multiple(height, square), nearest_multiple(width, square)};
}

// How many rows and columns of slices are nearest to a picture's proportions, by their logarithm. Of those
// that are as near, the most rows.
PatchGrid slices_in_proportion(const PictureSize& size, const Slicing& slicing) {
  const double edge = slicing.edge, proportion = std::log(static_cast<double>(size.width) / size.height);
  const double needed = std::ceil(static_cast<double>(size.width) * size.height / (edge * edge));
  const auto wanted = static_cast<uint32_t>(std::min<double>(needed, slicing.most));
  if (wanted <= 1) return {};
  PatchGrid best = {1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t count = std::max(wanted - 1, 2u); count <= std::min(wanted + 1, slicing.most); ++count) {
    for (uint32_t rows = 1; rows <= count; ++rows) {
      if (count % rows != 0) continue;
      const uint32_t columns = count / rows;
      const double error = std::abs(proportion - std::log(static_cast<double>(columns) / rows));
      if (error > least || (error == least && rows <= best.height)) continue;
      best = {rows, columns};
      least = error;
    }
  }
  return best;
}

} // namespace

Result<PicturePlan> plan_slices(const PictureSize& size, const ImagePreparation& preparation,
                                const std::string& name) {
  const PatchCutting& cutting = *preparation.patches;
  const PatchGrid slices = slices_in_proportion(size, *preparation.slices);
  PicturePlan plan;
  plan.rows = slices.height;
  plan.columns = slices.width;
  const bool cut = slices.count() > 0;
  const auto add = [&](const Pixels& each, uint64_t rows, uint64_t columns) -> Status {
    if (each.height * each.width > cutting.max_pixels) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: {} x {} pixels are too long and thin for the model, which reads at most "
                               "{} patches of {} pixels on each side at once",
                               name, size.width, size.height,
                               cutting.max_pixels / cutting.patch / cutting.patch, cutting.patch)};
    }
    const auto height = static_cast<uint32_t>(each.height), width = static_cast<uint32_t>(each.width);
    for (uint64_t i = 0; i < rows * columns; ++i) {
      const Window window{static_cast<int64_t>(i % columns * width),
                          static_cast<int64_t>(i / columns * height), width, height};
      plan.parts.push_back(
          {width * columns, height * rows, window, {height / cutting.patch, width / cutting.patch}});
    }
    return {};
  };
  PUMICE_CHECK(add(in_squares(size.height, size.width, preparation, !cut), 1, 1));
  if (!cut) return plan;
  const auto share = [](uint32_t edge, uint32_t parts) {
    return static_cast<double>(nearest_multiple(edge, parts) / parts);
  };
  const Pixels slice =
      in_squares(share(size.height, slices.height), share(size.width, slices.width), preparation, true);
  PUMICE_CHECK(add(slice, slices.height, slices.width));
  return plan;
}

} // namespace pumice
