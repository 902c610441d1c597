#include "media/preprocess.h"

#include "io/fields.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "media/gradual_preparation.h"

#include <algorithm>
#include <memory>
#include <new>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pumice {

namespace {

constexpr uint32_t max_image_size = 16384;

// The defaults of a class of image processors.
struct Family {
  std::string_view prefix; // of image_processor_type
  Resampling resampling;
  bool crops;
  bool square; // a size of one number means both edges, not the shortest
  std::array<float, 3> mean, deviation;
  enum class Tiles { none, within_edge, in_proportion } tiles = Tiles::none; // what pictures are cut into
  bool frames = false;    // pixels are counted in all copies of a picture, see PatchCutting
  bool normalises = true; // unless the file says otherwise
};

constexpr std::array<float, 3> half = {0.5F, 0.5F, 0.5F};
constexpr std::array<float, 3> zeros = {0, 0, 0}, ones = {1, 1, 1};
constexpr std::array<float, 3> clip_mean = {0.48145466F, 0.4578275F, 0.40821073F};
constexpr std::array<float, 3> clip_deviation = {0.26862954F, 0.26130258F, 0.27577711F};

constexpr Family vit = {"ViT", Resampling::bilinear, false, true, half, half};
constexpr Family families[] = {
    {"DeiT", Resampling::bicubic, true, true, half, half},
    {"Beit", Resampling::bicubic, false, true, half, half},
    {"CLIP", Resampling::bicubic, true, false, clip_mean, clip_deviation},
    {"ChineseCLIP", Resampling::bicubic, true, false, clip_mean, clip_deviation},
    {"Bit", Resampling::bicubic, true, false, clip_mean, clip_deviation},
    {"Idefics3", Resampling::lanczos, false, true, half, half, Family::Tiles::within_edge},
    {"SmolVLM", Resampling::lanczos, false, true, half, half, Family::Tiles::within_edge},
    {"GotOcr2", Resampling::bicubic, false, true, clip_mean, clip_deviation, Family::Tiles::in_proportion},
    {"Qwen2VL", Resampling::bicubic, false, true, clip_mean, clip_deviation},
    {"Glm4v", Resampling::bicubic, false, true, clip_mean, clip_deviation, Family::Tiles::none, true},
    {"Glm46V", Resampling::bicubic, false, true, clip_mean, clip_deviation, Family::Tiles::none, true},
    {"Pixtral", Resampling::bicubic, false, true, clip_mean, clip_deviation},
    {"Donut", Resampling::bilinear, false, true, half, half},
    {"Gemma4", Resampling::bicubic, false, true, zeros, ones, Family::Tiles::none, false, false},
    {"MiniCPMV4_6", Resampling::bicubic, false, true, half, half},
    {"DeepseekOcr2", Resampling::bicubic, false, true, half, half},
};

// Each file names its class. Classes that are not in the table write all fields, so they need no defaults.
Result<Family> family_of(const Fields& fields) {
  PUMICE_TRY(const std::string old_type, fields.string_or("feature_extractor_type", ""));
  PUMICE_TRY(const std::string type, fields.string_or("image_processor_type", old_type));
  for (const Family& family : families)
    if (type.starts_with(family.prefix)) return family;
  return vit;
}

// Refuses files that ask for steps that are not implemented here.
Status refuse_unknown_steps(const Fields& fields) {
  for (const char* step : {"do_pad", "do_thumbnail", "do_align_long_axis", "do_flip_channel_order",
                           "do_split_image", "do_image_splitting", "do_pan_and_scan", "do_color_quantize"}) {
    PUMICE_TRY(const bool asked, fields.boolean_or(step, false));
    if (asked)
      return Error{Code::unsupported,
                   fields.error(step, "expected false, found a step that is not supported").message};
  }
  if (fields.has("crop_pct"))
    return Error{Code::unsupported, fields.error("crop_pct", "not supported; use crop_size").message};
  return {};
}

struct Size {
  std::optional<uint32_t> shortest_edge;
  uint32_t height = 0, width = 0;
};

// Reads one number, [height, width], {"height", "width"} or {"shortest_edge"}; `fallback` if it is absent.
Result<Size> read_size(const Fields& fields, std::string_view name, bool square, const Size& fallback) {
  const nlohmann::json* found = fields.find(name);
  if (!found) return fallback;
  Size size;
  if (found->is_object()) {
    PUMICE_TRY(const Fields parts, fields.object(name));
    if (parts.has("longest_edge"))
      return Error{
          Code::unsupported,
          parts.error("longest_edge", "not supported; use height and width, or shortest_edge").message};
    if (parts.has("shortest_edge")) {
      PUMICE_TRY(size.shortest_edge, parts.u32("shortest_edge", 1, max_image_size));
    } else {
      PUMICE_TRY(size.height, parts.u32("height", 1, max_image_size));
      PUMICE_TRY(size.width, parts.u32("width", 1, max_image_size));
    }
    return size;
  }
  PUMICE_TRY(const std::vector<uint32_t> numbers, fields.u32_array(name, 1, max_image_size));
  if (numbers.empty() || numbers.size() > 2)
    return fields.error(name, fmt::format("expected one number or two, found {}", numbers.size()));
  if (numbers.size() == 1 && !square) {
    size.shortest_edge = numbers.front();
    return size;
  }
  size.height = numbers.front();
  size.width = numbers.back();
  return size;
}

Result<std::array<float, 3>> read_colours(const Fields& fields, std::string_view name,
                                          const std::array<float, 3>& fallback) {
  if (!fields.has(name)) return fallback;
  PUMICE_TRY(const std::vector<float> values, fields.f32_array(name));
  if (values.size() == 1) return std::array{values[0], values[0], values[0]};
  if (values.size() != 3)
    return fields.error(name, fmt::format("expected three numbers, found {}", values.size()));
  return std::array{values[0], values[1], values[2]};
}

Status read_numbers(const Fields& fields, const Family& family, ImagePreparation& result) {
  PUMICE_TRY(const bool rescales, fields.boolean_or("do_rescale", true));
  PUMICE_TRY(const float factor, fields.f32_or("rescale_factor", 1.0F / 255));
  result.scale = rescales ? factor : 1;
  PUMICE_TRY(const bool normalises, fields.boolean_or("do_normalize", family.normalises));
  result.mean = {0, 0, 0};
  result.deviation = {1, 1, 1};
  if (!normalises) return {};
  PUMICE_TRY(result.mean, read_colours(fields, "image_mean", family.mean));
  PUMICE_TRY(result.deviation, read_colours(fields, "image_std", family.deviation));
  for (const float deviation : result.deviation)
    if (!(deviation > 0))
      return fields.error("image_std", fmt::format("expected numbers above 0, found {}", deviation));
  return {};
}

Result<ImagePreparation> read_tiling(const Fields& fields, const Family& family, uint32_t height,
                                     uint32_t width) {
  ImagePreparation result;
  Tiling tiling;
  PUMICE_TRY(result.resizes, fields.boolean_or("do_resize", true));
  PUMICE_TRY(const Fields size, fields.object_or_empty("size"));
  PUMICE_TRY(tiling.longest_edge, size.u32_or("longest_edge", 1, max_image_size, 4 * 364));
  if (fields.has("size") && !size.has("longest_edge"))
    return fields.error("size", "expected longest_edge, as pictures are cut into tiles");
  PUMICE_TRY(const Fields tile, fields.object_or_empty("max_image_size"));
  PUMICE_TRY(tiling.edge, tile.u32_or("longest_edge", 1, max_image_size, 364));
  PUMICE_TRY(tiling.cuts, fields.boolean_or("do_image_splitting", true));
  if (tiling.edge != height || tiling.edge != width)
    return fields.error(
        "max_image_size",
        fmt::format("expected the model's {} x {} pixels, found tiles of {}", height, width, tiling.edge));
  PUMICE_TRY(const uint32_t code, fields.u32_or("resample", 0, 5, static_cast<uint32_t>(family.resampling)));
  result.resampling = static_cast<Resampling>(code);
  PUMICE_CHECK(read_numbers(fields, family, result));
  result.height = height;
  result.width = width;
  result.tiling = tiling;
  return result;
}

// Donut's pictures are resized to the shorter edge, then made to fit, in the middle of zeros. A list has the
// width first.
Result<ImagePreparation> read_fitting(const Fields& fields, const Family& family, uint32_t height,
                                      uint32_t width) {
  ImagePreparation result;
  for (const char* step : {"do_resize", "do_thumbnail", "do_pad"}) {
    PUMICE_TRY(const bool asked, fields.boolean_or(step, true));
    if (!asked) return Error{Code::unsupported, fields.error(step, "expected true; found false").message};
  }
  for (const char* step : {"do_align_long_axis", "do_center_crop"}) {
    PUMICE_TRY(const bool asked, fields.boolean_or(step, false));
    if (asked)
      return Error{Code::unsupported,
                   fields.error(step, "expected false, found a step that is not supported").message};
  }
  PUMICE_TRY(Size size, read_size(fields, "size", true, {std::nullopt, height, width}));
  if (const nlohmann::json* list = fields.find("size"); list && list->is_array())
    std::swap(size.height, size.width);
  if (size.shortest_edge || size.height != height || size.width != width)
    return fields.error("size", fmt::format("expected the model's {} x {} pixels, found {} x {}", height,
                                            width, size.height, size.width));
  result.shortest_edge = std::min(height, width);
  result.crops = true;
  result.height = result.crop_height = height;
  result.width = result.crop_width = width;
  PUMICE_TRY(const uint32_t code, fields.u32_or("resample", 0, 5, static_cast<uint32_t>(family.resampling)));
  result.resampling = static_cast<Resampling>(code);
  PUMICE_CHECK(read_numbers(fields, family, result));
  return result;
}

// Whole pictures are resized to the model's size, and cut into tiles of it. InternVL's processor asks for
// that whatever crop_to_patches says.
Status set_proportional_tiling(const Fields& fields, ImagePreparation& result) {
  Tiling tiling;
  tiling.edge = result.height;
  PUMICE_TRY(tiling.least, fields.u32_or("min_patches", 1, Tiling::most_tiles, 1));
  PUMICE_TRY(tiling.most, fields.u32_or("max_patches", tiling.least, Tiling::most_tiles, 12));
  if (result.crops || !result.resizes || result.height != result.width)
    return fields.error("size", "expected squares that pictures are resized to, without do_center_crop");
  result.tiling = tiling;
  return {};
}

Result<ImagePreparation> read_preparation(const Fields& fields, uint32_t height, uint32_t width) {
  PUMICE_TRY(const Family family, family_of(fields));
  if (family.tiles == Family::Tiles::within_edge) return read_tiling(fields, family, height, width);
  if (family.prefix == "Donut") return read_fitting(fields, family, height, width);
  PUMICE_CHECK(refuse_unknown_steps(fields));
  const Size model{std::nullopt, height, width};
  ImagePreparation result;
  PUMICE_TRY(result.resizes, fields.boolean_or("do_resize", true));
  PUMICE_TRY(const Size size, read_size(fields, "size", family.square, model));
  result.shortest_edge = size.shortest_edge;
  result.height = size.height;
  result.width = size.width;
  PUMICE_TRY(const uint32_t code, fields.u32_or("resample", 0, 5, static_cast<uint32_t>(family.resampling)));
  result.resampling = static_cast<Resampling>(code);

  PUMICE_TRY(result.crops, fields.boolean_or("do_center_crop", family.crops));
  PUMICE_TRY(const Size crop, read_size(fields, "crop_size", true, model));
  if (result.crops && crop.shortest_edge)
    return fields.error("crop_size", "expected height and width, found shortest_edge");
  result.crop_height = crop.height;
  result.crop_width = crop.width;
  PUMICE_CHECK(read_numbers(fields, family, result));

  if (result.crops && (crop.height != height || crop.width != width))
    return fields.error("crop_size", fmt::format("expected the model's {} x {} pixels, found {} x {}", height,
                                                 width, crop.height, crop.width));
  if (!result.crops && result.resizes && result.shortest_edge)
    return fields.error("size", "expected height and width where nothing is cropped, found shortest_edge");
  if (!result.crops && result.resizes && (size.height != height || size.width != width))
    return fields.error("size", fmt::format("expected the model's {} x {} pixels, found {} x {}", height,
                                            width, size.height, size.width));
  if (!result.crops && !result.resizes) { // pictures must have the model's size
    result.height = height;
    result.width = width;
  }
  if (family.tiles == Family::Tiles::in_proportion) PUMICE_CHECK(set_proportional_tiling(fields, result));
  return result;
}

// An edge of patches or squares, which has to be the model's.
Status check_edge(const Fields& fields, std::string_view name, uint32_t model) {
  PUMICE_TRY(const uint32_t own, fields.u32_or(name, model));
  if (own == model) return {};
  return fields.error(name, fmt::format("expected the model's {}, found {}", model, own));
}

// The least and the most pixels of a picture.
Status read_pixels(const Fields& fields, const Family& family, PatchCutting& cutting) {
  PUMICE_CHECK(check_edge(fields, "patch_size", cutting.patch));
  PUMICE_CHECK(check_edge(fields, "temporal_patch_size", cutting.copies));
  PUMICE_CHECK(check_edge(fields, "merge_size", cutting.merge));
  PUMICE_TRY(const Fields size, fields.object_or_empty("size")); // since transformers 5
  PUMICE_TRY(uint32_t least,
             size.u32_or("shortest_edge", 1, UINT32_MAX, family.frames ? 112 * 112 : 56 * 56));
  PUMICE_TRY(uint32_t most,
             size.u32_or("longest_edge", 1, UINT32_MAX, 28 * 28 * (family.frames ? 15000 : 1280)));
  PUMICE_TRY(least, fields.u32_or("min_pixels", 1, UINT32_MAX, least));
  PUMICE_TRY(most, fields.u32_or("max_pixels", 1, UINT32_MAX, most));
  if (least > most)
    return fields.error("max_pixels", fmt::format("expected at least {}, found {}", least, most));
  if (family.frames) {
    least = (least - 1) / cutting.copies + 1;
    most = std::max(most / cutting.copies, least);
    cutting.grows_edges = true;
  }
  cutting.max_pixels = cutting.max_pixels ? std::min<uint64_t>(cutting.max_pixels, most) : most;
  cutting.min_pixels = std::min<uint64_t>(least, cutting.max_pixels);
  return {};
}

// The most pixels of a picture that is made as large as may be (Gemma 4), which the file has as squares.
Status read_squares(const Fields& fields, PatchCutting& cutting) {
  PUMICE_CHECK(check_edge(fields, "patch_size", cutting.patch));
  PUMICE_CHECK(check_edge(fields, "pooling_kernel_size", cutting.merge));
  PUMICE_TRY(const uint32_t most, fields.u32_or("max_soft_tokens", 1, max_image_size, 280));
  const uint64_t pixels = uint64_t{most} * cutting.square() * cutting.square();
  cutting.max_pixels = cutting.max_pixels ? std::min(cutting.max_pixels, pixels) : pixels;
  return {};
}

// The longest edge of a picture, at most the model's (Pixtral).
Status read_longest_edge(const Fields& fields, PatchCutting& cutting) {
  const nlohmann::json* patch = fields.find("patch_size");
  if (patch && patch->is_object()) {
    PUMICE_TRY(const Fields edges, fields.object("patch_size"));
    PUMICE_CHECK(check_edge(edges, "height", cutting.patch));
    PUMICE_CHECK(check_edge(edges, "width", cutting.patch));
  } else {
    PUMICE_CHECK(check_edge(fields, "patch_size", cutting.patch));
  }
  PUMICE_TRY(const bool crops, fields.boolean_or("do_center_crop", false));
  if (crops) return fields.error("do_center_crop", "expected false, as the model reads whole pictures");
  PUMICE_TRY(const Fields size, fields.object_or_empty("size"));
  if (fields.has("size") && !size.has("longest_edge"))
    return fields.error("size", "expected longest_edge, as pictures keep their proportions");
  PUMICE_TRY(const uint32_t longest, size.u32_or("longest_edge", 1, max_image_size, 1024));
  cutting.limit_edges(std::min(cutting.longest_edge, longest));
  return {};
}

// MiniCPM-V 4.6's steps.
Result<ImagePreparation> read_slices(const Fields& fields, const PatchCutting& cutting) {
  PUMICE_TRY(const Family family, family_of(fields));
  ImagePreparation result;
  PUMICE_CHECK(check_edge(fields, "patch_size", cutting.patch));
  PUMICE_TRY(const bool resizes, fields.boolean_or("do_resize", true));
  if (!resizes) return fields.error("do_resize", "expected true; found false");
  const std::string own = fmt::format("{}x", cutting.merge * cutting.merge);
  PUMICE_TRY(const std::string mode, fields.string_or("downsample_mode", own));
  if (mode != own)
    return fields.error("downsample_mode", fmt::format("expected the model's {}, found '{}'", own, mode));
  Slicing slicing;
  PUMICE_TRY(slicing.edge, fields.u32_or("scale_resolution", 1, max_image_size, slicing.edge));
  PUMICE_TRY(slicing.most, fields.u32_or("max_slice_nums", 1, Slicing::most_slices, slicing.most));
  PUMICE_TRY(const bool cuts, fields.boolean_or("slice_mode", true));
  if (!cuts) slicing.most = 1;
  PUMICE_TRY(slicing.numbered, fields.boolean_or("use_image_id", true));
  PUMICE_TRY(const uint32_t code, fields.u32_or("resample", 0, 5, static_cast<uint32_t>(family.resampling)));
  result.resampling = static_cast<Resampling>(code);
  PUMICE_CHECK(read_numbers(fields, family, result));
  result.patches = cutting;
  result.slices = slicing;
  return result;
}

Result<ImagePreparation> read_patches(const Fields& fields, PatchCutting cutting) {
  PUMICE_TRY(const Family family, family_of(fields));
  ImagePreparation result;
  PUMICE_TRY(result.resizes, fields.boolean_or("do_resize", true));
  PUMICE_CHECK(cutting.fills              ? read_squares(fields, cutting)
               : cutting.longest_edge > 0 ? read_longest_edge(fields, cutting)
                                          : read_pixels(fields, family, cutting));
  PUMICE_TRY(const uint32_t code, fields.u32_or("resample", 0, 5, static_cast<uint32_t>(family.resampling)));
  result.resampling = static_cast<Resampling>(code);
  PUMICE_CHECK(read_numbers(fields, family, result));
  result.patches = cutting;
  return result;
}

Result<ImagePreparation> read_filled(const Fields& fields) {
  PUMICE_TRY(const Family family, family_of(fields));
  PUMICE_CHECK(refuse_unknown_steps(fields));
  for (const char* step : {"do_resize", "crop_to_patches"}) {
    PUMICE_TRY(const bool asked, fields.boolean_or(step, true));
    if (!asked) return Error{Code::unsupported, fields.error(step, "expected true; found false").message};
  }
  ImagePreparation result;
  Tiling tiling;
  PUMICE_TRY(const Size size, read_size(fields, "size", true, {std::nullopt, 1024, 1024}));
  if (size.shortest_edge || size.height != size.width)
    return fields.error("size", "expected the same height and width, in which the whole picture is shown");
  tiling.whole_edge = result.height = result.width = size.height;
  PUMICE_TRY(tiling.edge, fields.u32_or("tile_size", 1, max_image_size, 768));
  PUMICE_TRY(tiling.least, fields.u32_or("min_patches", 1, Tiling::most_tiles, 2));
  PUMICE_TRY(tiling.most, fields.u32_or("max_patches", tiling.least, Tiling::most_tiles, 6));
  constexpr std::array<float, 3> grey = {127, 127, 127};
  PUMICE_TRY(const auto outside, read_colours(fields, "background_color", grey));
  for (size_t i = 0; i < outside.size(); ++i) {
    if (!(outside[i] >= 0 && outside[i] <= 255))
      return fields.error("background_color", fmt::format("expected 0 to 255, found {}", outside[i]));
    tiling.outside[i] = static_cast<uint8_t>(outside[i]);
  }
  PUMICE_TRY(const uint32_t code, fields.u32_or("resample", 0, 5, static_cast<uint32_t>(family.resampling)));
  result.resampling = static_cast<Resampling>(code);
  PUMICE_CHECK(read_numbers(fields, family, result));
  result.tiling = tiling;
  return result;
}

// A processor's settings, and the file that has them.
struct ProcessorSettings {
  nlohmann::json object;
  std::string file, prefix;

  Fields fields() const { return Fields(object, file, prefix); }
};

// Of a file that may be missing.
Result<std::optional<ProcessorSettings>> read_settings_file(const ModelFolder& folder, const char* name) {
  const auto file = folder.open(name);
  if (!file && file.error().code == Code::not_found) return std::optional<ProcessorSettings>();
  if (!file) return file.error();
  PUMICE_TRY(nlohmann::json object, parse_json_object(file->bytes(), file->path()));
  return std::optional(ProcessorSettings{std::move(object), file->path(), ""});
}

// Since transformers 5 the settings of all of a model's processors are in one file. It reads them first:
// where the older file lies beside it, that is left from before.
Result<std::optional<ProcessorSettings>> read_processor_settings(const ModelFolder& folder) {
  PUMICE_TRY(std::optional<ProcessorSettings> all, read_settings_file(folder, "processor_config.json"));
  if (!all || !all->fields().has("image_processor"))
    return read_settings_file(folder, "preprocessor_config.json");
  PUMICE_CHECK(all->fields().object("image_processor"));
  nlohmann::json own = std::move(all->object["image_processor"]);
  return std::optional(ProcessorSettings{std::move(own), std::move(all->file), "image_processor."});
}

int64_t floor_half(int64_t value) {
  return value >= 0 ? value / 2 : -((1 - value) / 2);
}

} // namespace

Result<std::optional<PictureSize>> read_picture_size(const ModelFolder& folder) {
  PUMICE_TRY(const std::optional<ProcessorSettings> settings, read_processor_settings(folder));
  if (!settings) return std::optional<PictureSize>();
  const Fields fields = settings->fields();
  PUMICE_TRY(const Family family, family_of(fields));
  PUMICE_TRY(const bool crops, fields.boolean_or("do_center_crop", family.crops));
  PUMICE_TRY(const Size size, read_size(fields, crops ? "crop_size" : "size", crops || family.square, {}));
  if (size.shortest_edge || size.height == 0) return std::optional<PictureSize>();
  return std::optional(PictureSize{size.height, size.width});
}

Result<ImagePreparation> read_image_preparation(const ModelFolder& folder, uint32_t height, uint32_t width) {
  PUMICE_TRY(const std::optional<ProcessorSettings> settings, read_processor_settings(folder));
  if (settings) return read_preparation(settings->fields(), height, width);
  ImagePreparation plain;
  plain.height = height;
  plain.width = width;
  return plain;
}

namespace {

// By a function of the fields that the folder has, or else of those that say no more than their class.
template <class Read>
Result<ImagePreparation> read_of_class(const ModelFolder& folder, const char* type, const Read& read) {
  PUMICE_TRY(const std::optional<ProcessorSettings> settings, read_processor_settings(folder));
  if (settings) return read(settings->fields());
  const nlohmann::json of_class = {{"image_processor_type", type}};
  return read(Fields(of_class, folder.path("preprocessor_config.json")));
}

} // namespace

Result<ImagePreparation> read_patch_preparation(const ModelFolder& folder, const PatchCutting& model) {
  return read_of_class(folder, model.longest_edge > 0 ? "PixtralImageProcessor" : "Qwen2VLImageProcessor",
                       [&](const Fields& fields) { return read_patches(fields, model); });
}

Result<ImagePreparation> read_slice_preparation(const ModelFolder& folder, const PatchCutting& model) {
  return read_of_class(folder, "MiniCPMV4_6ImageProcessor",
                       [&](const Fields& fields) { return read_slices(fields, model); });
}

Result<ImagePreparation> read_filled_preparation(const ModelFolder& folder) {
  return read_of_class(folder, "DeepseekOcr2ImageProcessor", read_filled);
}

namespace {

constexpr uint64_t most_resized = uint64_t{1} << 28; // pixels of a picture on the way to a smaller one

// A size in the same proportions that fits another one.
PictureSize fitted(PictureSize size, PictureSize most) {
  const auto scaled = [](uint64_t edge, uint64_t to, uint64_t from) {
    return std::max<uint32_t>(1, static_cast<uint32_t>(edge * to / from));
  };
  PictureSize result = {std::min(size.height, most.height), std::min(size.width, most.width)};
  if (size.height > size.width) {
    result.width = scaled(size.width, result.height, size.height);
  } else if (size.width > size.height) {
    result.height = scaled(size.height, result.width, size.width);
  }
  return result;
}

} // namespace

Result<PicturePlan> plan_whole(const PictureSize& size, const ImagePreparation& preparation,
                               const std::string& name) {
  if (preparation.tiling)
    return Error{
        Code::unsupported,
        fmt::format("{}: the model reads a picture in tiles, not as one: use pumice chat or caption", name)};
  if (preparation.patches)
    return Error{
        Code::unsupported,
        fmt::format("{}: the model reads a picture in patches, for a prompt: use pumice chat or caption",
                    name)};
  PicturePlan plan;
  uint64_t height = size.height, width = size.width;
  const bool fits = preparation.shortest_edge && preparation.height > 0;
  if (preparation.resizes && preparation.shortest_edge) {
    const uint64_t edge = *preparation.shortest_edge, shortest = std::min(height, width);
    height = height == shortest ? edge : edge * height / shortest;
    width = width == shortest ? edge : edge * width / shortest;
    if (fits && (height > preparation.height || width > preparation.width)) {
      if (height * width > most_resized)
        return Error{Code::invalid_argument,
                     fmt::format("{}: {} x {} pixels are too long and narrow for this model", name,
                                 size.width, size.height)};
      plan.wholes = {{static_cast<uint32_t>(height), static_cast<uint32_t>(width)}};
      const PictureSize small = fitted(plan.wholes[0], {preparation.height, preparation.width});
      height = small.height;
      width = small.width;
    }
  } else if (preparation.resizes) {
    height = preparation.height;
    width = preparation.width;
  } else if (!preparation.crops && (height != preparation.height || width != preparation.width)) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: expected a picture of {} x {} pixels, as the model does not resize, found {} x {}",
                    name, preparation.width, preparation.height, width, height)};
  }
  Window window{0, 0, static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
  const auto begin = [fits](uint64_t own, uint32_t cut) {
    const int64_t left = static_cast<int64_t>(own) - cut;
    return fits ? left / 2 : floor_half(left);
  };
  if (preparation.crops)
    window = {begin(width, preparation.crop_width), begin(height, preparation.crop_height),
              preparation.crop_width, preparation.crop_height};
  plan.parts = {{width, height, window}};
  return plan;
}

std::vector<std::vector<float>> prepare_parts(const Image& image, const ImagePreparation& preparation,
                                              const PicturePlan& plan) {
  GradualPreparation work({std::shared_ptr<void>(), &image}, preparation, plan);
  while (work.advance()) {
  }
  return work.take();
}

Result<std::vector<float>> prepare(const Image& image, const ImagePreparation& preparation,
                                   const std::string& name) try {
  PUMICE_TRY(const PicturePlan plan, plan_whole({image.height, image.width}, preparation, name));
  return std::move(prepare_parts(image, preparation, plan).front());
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory to resize it", name)};
}

} // namespace pumice
