#include "media/tiles.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint32_t largest_edge = 4096; // of what is cut

// `edge` times a ratio, as the reference rounds it.
uint32_t scaled_edge(double edge) {
  return static_cast<uint32_t>(std::min(edge, 4294967295.0));
}

// The longest edge becomes `longest`, the other one keeps the proportions and is made even.
PictureSize with_longest_edge(const PictureSize& size, uint32_t longest) {
  const double aspect = static_cast<double>(size.width) / size.height;
  PictureSize result = {longest, longest};
  uint32_t& shorter = size.width >= size.height ? result.height : result.width;
  shorter = scaled_edge(size.width >= size.height ? longest / aspect : longest * aspect);
  shorter += shorter % 2;
  return {std::max(result.height, 1u), std::max(result.width, 1u)};
}

// No edge is above `most`.
PictureSize edges_within(const PictureSize& size, uint32_t most) {
  const double aspect = static_cast<double>(size.width) / size.height;
  PictureSize result = size;
  if (size.width >= size.height && size.width > most) {
    result = {scaled_edge(most / aspect), most};
  } else if (size.height > size.width && size.height > most) {
    result = {most, scaled_edge(most * aspect)};
  }
  return {std::max(result.height, 1u), std::max(result.width, 1u)};
}

uint32_t next_multiple(uint32_t value, uint32_t of) {
  return (value + of - 1) / of * of;
}

// Both edges become multiples of a tile's: first the longer one, then the other one in its proportion.
PictureSize in_tiles(const PictureSize& size, uint32_t tile) {
  const double aspect = static_cast<double>(size.width) / size.height;
  PictureSize result;
  if (size.width >= size.height) {
    result.width = next_multiple(size.width, tile);
    result.height = next_multiple(scaled_edge(result.width / aspect), tile);
  } else {
    result.height = next_multiple(size.height, tile);
    result.width = next_multiple(scaled_edge(result.height * aspect), tile);
  }
  return {std::max(result.height, tile), std::max(result.width, tile)};
}

} // namespace

Result<PicturePlan> plan_tiles(const PictureSize& size, const ImagePreparation& preparation,
                               const std::string& name) {
  if (!preparation.tiling) return plan_whole(size, preparation, name);
  const Tiling& tiling = *preparation.tiling;
  PicturePlan plan;
  PictureSize whole = size;
  if (preparation.resizes) {
    whole = edges_within(with_longest_edge(size, tiling.longest_edge), largest_edge);
    plan.wholes.push_back(whole);
  }
  if (tiling.cuts) {
    whole = in_tiles(whole, tiling.edge);
    if (std::max(whole.height, whole.width) > 2 * largest_edge) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: a picture of {} x {} pixels, which the model does not resize, gives too "
                               "many tiles of {}: make it smaller",
                               name, size.width, size.height, tiling.edge)};
    }
    plan.wholes.push_back(whole);
    if (whole.height > tiling.edge || whole.width > tiling.edge) {
      plan.rows = whole.height / tiling.edge;
      plan.columns = whole.width / tiling.edge;
    }
  }
  for (uint32_t tile = 0; tile < plan.rows * plan.columns; ++tile) {
    const Window window{int64_t{tile % plan.columns} * tiling.edge,
                        int64_t{tile / plan.columns} * tiling.edge, tiling.edge, tiling.edge};
    plan.parts.push_back({whole.width, whole.height, window});
  }
  plan.parts.push_back({tiling.edge, tiling.edge, {0, 0, tiling.edge, tiling.edge}});
  return plan;
}

Result<TiledPicture> prepare_tiles(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name) try {
  PUMICE_TRY(const PicturePlan plan, plan_tiles({image.height, image.width}, preparation, name));
  return TiledPicture{plan.rows, plan.columns, prepare_parts(image, preparation, plan)};
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory to cut it into tiles", name)};
}

} // namespace pumice
