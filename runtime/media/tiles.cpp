#include "media/tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

// How many rows and columns of tiles are nearest to a picture's proportions. Of those that are as near, the
// most tiles that are less than twice the picture.
PictureSize tiles_in_proportion(const PictureSize& size, const Tiling& tiling) {
  const double aspect = static_cast<double>(size.width) / size.height;
  const double pixels = static_cast<double>(size.width) * size.height;
  PictureSize best = {1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t count = tiling.least; count <= tiling.most; ++count) {
    for (uint32_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0) continue;
      const uint32_t rows = count / columns;
      const double difference = std::abs(aspect - static_cast<double>(columns) / rows);
      const double half = 0.5 * tiling.edge * tiling.edge * columns * rows;
      if (difference > least || (difference == least && pixels <= half)) continue;
      least = difference;
      best = {rows, columns};
    }
  }
  return best;
}

// The tiles of a picture that is resized to `size`, row by row.
void add_tiles(PicturePlan& plan, const PictureSize& size, const Tiling& tiling) {
  const uint32_t edge = tiling.edge;
  for (uint32_t tile = 0; tile < plan.rows * plan.columns; ++tile) {
    const Window window{int64_t{tile % plan.columns} * edge, int64_t{tile / plan.columns} * edge, edge, edge};
    plan.parts.push_back({size.width, size.height, window, tiling.tile_rows});
  }
}

// The whole picture in the middle of a square.
PicturePlan::Part part_in_square(const PictureSize& size, const Tiling& tiling) {
  const uint32_t edge = tiling.whole_edge;
  const double scale = static_cast<double>(edge) / std::max(size.width, size.height);
  const auto scaled = [&](uint32_t own) { // ties become even, as in Python
    return std::clamp(static_cast<uint32_t>(std::nearbyint(own * scale)), 1u, edge);
  };
  const uint32_t width = scaled(size.width), height = scaled(size.height);
  const Window window{-int64_t{(edge - width) / 2}, -int64_t{(edge - height) / 2}, edge, edge,
                      tiling.outside};
  return {width, height, window};
}

PicturePlan plan_filled(const PictureSize& size, const Tiling& tiling) {
  PicturePlan plan;
  if (std::max(size.width, size.height) > tiling.edge) {
    const PictureSize tiles = tiles_in_proportion(size, tiling);
    plan.rows = tiles.height;
    plan.columns = tiles.width;
  }
  add_tiles(plan, {plan.rows * tiling.edge, plan.columns * tiling.edge}, tiling);
  plan.parts.push_back(part_in_square(size, tiling));
  return plan;
}

PicturePlan plan_in_proportion(const PictureSize& size, const Tiling& tiling) {
  PicturePlan plan;
  const PictureSize tiles = tiles_in_proportion(size, tiling);
  if (tiles.height * tiles.width > 1) {
    plan.rows = tiles.height;
    plan.columns = tiles.width;
  }
  add_tiles(plan, {plan.rows * tiling.edge, plan.columns * tiling.edge}, tiling);
  plan.parts.push_back({tiling.edge, tiling.edge, {0, 0, tiling.edge, tiling.edge}});
  return plan;
}

} // namespace

Result<PicturePlan> plan_tiles(const PictureSize& size, const ImagePreparation& preparation,
                               const std::string& name) {
  if (!preparation.tiling) return plan_whole(size, preparation, name);
  const Tiling& tiling = *preparation.tiling;
  if (tiling.whole_edge > 0) return plan_filled(size, tiling);
  if (tiling.most > 0) return plan_in_proportion(size, tiling);
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
  add_tiles(plan, whole, tiling);
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
