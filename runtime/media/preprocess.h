#pragma once

#include "io/model_folder.h"
#include "media/image.h"
#include "media/patch_grid.h"
#include "media/resize.h"

#include <array>
#include <optional>

namespace pumice {

// How pictures are cut (SmolVLM, Idefics3, InternVL, DeepSeek-OCR 2), see media/tiles.h.
struct Tiling {
  static constexpr uint32_t most_tiles = 256; // that `most` may be

  uint32_t longest_edge = 0; // that a picture is resized to first, if it is resized
  uint32_t edge = 0;         // of a tile, and of the whole picture that comes with them
  bool cuts = true;          // otherwise there is the whole alone
  // Above 0: a picture is cut into so many tiles, whose rows and columns are about in its proportions
  // (InternVL). One tile is the whole.
  uint32_t least = 0, most = 0;
  // Not 0: pictures with an edge longer than a tile's are cut so, and the whole keeps its proportions in a
  // square of this edge, in the middle of `outside`. Tiles have other rows then, in a grid of their own.
  uint32_t whole_edge = 0;
  std::array<uint8_t, 3> outside = {};
  PatchGrid tile_rows = {};
};

// How a picture in patches comes with slices of it (MiniCPM-V), see media/tiles.h.
struct Slicing {
  static constexpr uint32_t most_slices = 256; // that `most` may be

  uint32_t edge = 448;  // of a square with as many pixels as the picture, or a slice, is given
  uint32_t most = 9;    // slices; 1: there is the whole picture alone
  bool numbered = true; // the prompt's text has a picture's number before it
};

// The steps that a model's folder prescribes for a picture: resize, crop, scale, normalise. They are in
// "image_processor" of processor_config.json, or else in preprocessor_config.json.
struct ImagePreparation {
  bool resizes = true;
  // Resized to this shortest edge, keeping proportions, or else to exactly the height and width. With both,
  // what is then larger than height and width is made to fit them (Donut).
  std::optional<uint32_t> shortest_edge;
  uint32_t height = 0, width = 0;
  Resampling resampling = Resampling::bilinear;
  bool crops = false; // cuts out the centre; zeros around a picture that is too small
  uint32_t crop_height = 0, crop_width = 0;
  float scale = 1.0F / 255; // applied to 8-bit values
  std::array<float, 3> mean = {0.5F, 0.5F, 0.5F};
  std::array<float, 3> deviation = {0.5F, 0.5F, 0.5F};
  std::optional<Tiling> tiling;        // in place of the sizes and the crop
  std::optional<PatchCutting> patches; // the same, see media/patches.h
  std::optional<Slicing> slices;       // with patches
};

struct PictureSize {
  uint32_t height = 0, width = 0;
};

// The size of what these steps make of pictures; nothing if there is no such file or it does not say.
Result<std::optional<PictureSize>> read_picture_size(const ModelFolder& folder);

// Reads the steps for a model whose input has this size. Without a file, pictures are resized to the size
// (bilinear) and normalised to -1 ... 1, as for ViT. Errors: a field of the wrong type, an unsupported step,
// or a result of another size than the model's.
Result<ImagePreparation> read_image_preparation(const ModelFolder& folder, uint32_t height, uint32_t width);

// The same for a model that reads patches of pictures of any size. `model`: their sizes, and the most pixels
// that it reads (0: any number), or the longest edge; the file may say fewer. An error if the file cuts other
// patches.
Result<ImagePreparation> read_patch_preparation(const ModelFolder& folder, const PatchCutting& model);

// The same for a model that reads slices of pictures.
Result<ImagePreparation> read_slice_preparation(const ModelFolder& folder, const PatchCutting& model);

// The same for a model that reads tiles and the whole, each in a square of its own size, which the file says
// (DeepSeek-OCR 2).
Result<ImagePreparation> read_filled_preparation(const ModelFolder& folder);

// What a picture of some size becomes: it is resized as a whole, several times if need be, and then the parts
// that a model reads are cut out of it, each by another resize.
struct PicturePlan {
  struct Part {
    uint64_t width = 0, height = 0; // that the whole is resized to
    Window window;                  // what is computed of that
    PatchGrid grid = {};            // of its patches, whose values follow each other; 0 x 0: none
  };
  std::vector<PictureSize> wholes;
  std::vector<Part> parts;
  uint32_t rows = 0, columns = 0; // of tiles or slices; 0: the picture is not cut
};

// The plan of prepare(), with its errors.
Result<PicturePlan> plan_whole(const PictureSize& size, const ImagePreparation& preparation,
                               const std::string& name);

// Applies the steps. The result is the model's pixel_values, [3, height, width]: a plane each for red, green
// and blue. `name` names the picture in errors, such as for a picture of another size than the model's where
// no step resizes it, or for one that the preparation cuts into tiles or patches.
Result<std::vector<float>> prepare(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name);

// The parts of a plan.
std::vector<std::vector<float>> prepare_parts(const Image& image, const ImagePreparation& preparation,
                                              const PicturePlan& plan);

} // namespace pumice
