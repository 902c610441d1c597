#include "generate/prepared_picture.h"

#include <new>

#include <fmt/format.h>

#include "media/patches.h"
#include "media/tiles.h"

namespace pumice {

Result<PicturePlan> plan_for_prompt(const PictureSize& size, const ImagePreparation& preparation,
                                    const std::string& name) {
  if (preparation.slices) return plan_slices(size, preparation, name);
  return preparation.patches ? plan_patches(size, preparation, name) : plan_tiles(size, preparation, name);
}

PictureGrid grid_of(const PicturePlan& plan, const ImagePreparation& preparation) {
  PictureGrid grid = {plan.rows, plan.columns};
  if (!preparation.patches) return grid;
  const PatchGrid squares = plan.parts.front().grid.merged(preparation.patches->merge);
  grid.lines = squares.height;
  grid.line = squares.width;
  return grid;
}

Result<PreparedPicture> prepare_for_prompt(const Image& image, const ImagePreparation& preparation,
                                           const std::string& name) try {
  PUMICE_TRY(const PicturePlan plan, plan_for_prompt({image.height, image.width}, preparation, name));
  PreparedPicture picture{grid_of(plan, preparation), {}};
  for (std::vector<float>& values : prepare_parts(image, preparation, plan)) {
    const PatchGrid& patches = plan.parts[picture.inputs.size()].grid;
    EncoderInput& input = picture.inputs.emplace_back();
    input.values = std::move(values);
    input.grid = patches;
  }
  return picture;
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory to resize and cut it", name)};
}

} // namespace pumice
