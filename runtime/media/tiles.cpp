#include "media/tiles.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint32_t largest_edge = 4096; // of what is cut

struct Edges {
  uint32_t height = 0, width = 0;
};

// `edge` times a ratio, as the reference rounds it.
uint32_t scaled_edge(double edge) {
  return static_cast<uint32_t>(std::min(edge, 4294967295.0));
}

// The longest edge becomes `longest`, the other one keeps the proportions and is made even.
Edges with_longest_edge(const Edges& size, uint32_t longest) {
  const double aspect = static_cast<double>(size.width) / size.height;
  Edges result = {longest, longest};
  uint32_t& shorter = size.width >= size.height ? result.height : result.width;
  shorter = scaled_edge(size.width >= size.height ? longest / aspect : longest * aspect);
  shorter += shorter % 2;
  return {std::max(result.height, 1u), std::max(result.width, 1u)};
}

// No edge is above `most`.
Edges edges_within(const Edges& size, uint32_t most) {
  const double aspect = static_cast<double>(size.width) / size.height;
  Edges result = size;
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
Edges in_tiles(const Edges& size, uint32_t tile) {
  const double aspect = static_cast<double>(size.width) / size.height;
  Edges result;
  if (size.width >= size.height) {
    result.width = next_multiple(size.width, tile);
    result.height = next_multiple(scaled_edge(result.width / aspect), tile);
  } else {
    result.height = next_multiple(size.height, tile);
    result.width = next_multiple(scaled_edge(result.height * aspect), tile);
  }
  return {std::max(result.height, tile), std::max(result.width, tile)};
}

Image resized_to(const Image& image, const Edges& size, Resampling resampling) {
  return resize(image, size.width, size.height, resampling, {0, 0, size.width, size.height});
}

} // namespace

Result<TiledPicture> prepare_tiles(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name) try {
  TiledPicture result;
  if (!preparation.tiling) {
    PUMICE_TRY(std::vector<float> values, prepare(image, preparation, name));
    result.pictures.push_back(std::move(values));
    return result;
  }
  const Tiling& tiling = *preparation.tiling;
  Image whole = image;
  if (preparation.resizes) {
    const Edges longest = with_longest_edge({image.height, image.width}, tiling.longest_edge);
    whole = resized_to(image, edges_within(longest, largest_edge), preparation.resampling);
  }
  if (tiling.cuts) {
    const Edges size = in_tiles({whole.height, whole.width}, tiling.edge);
    if (std::max(size.height, size.width) > 2 * largest_edge) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: a picture of {} x {} pixels, which the model does not resize, gives too "
                               "many tiles of {}: make it smaller",
                               name, whole.width, whole.height, tiling.edge)};
    }
    whole = resized_to(whole, size, preparation.resampling);
    if (size.height > tiling.edge || size.width > tiling.edge) {
      result.rows = size.height / tiling.edge;
      result.columns = size.width / tiling.edge;
    }
  }
  for (uint32_t tile = 0; tile < result.rows * result.columns; ++tile) {
    const Window window{int64_t{tile % result.columns} * tiling.edge,
                        int64_t{tile / result.columns} * tiling.edge, tiling.edge, tiling.edge};
    result.pictures.push_back(
        normalised(resize(whole, whole.width, whole.height, preparation.resampling, window), preparation));
  }
  result.pictures.push_back(
      normalised(resized_to(whole, {tiling.edge, tiling.edge}, preparation.resampling), preparation));
  return result;
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory to cut it into tiles", name)};
}

} // namespace pumice
