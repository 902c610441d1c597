#include "generate/prepared_picture.h"

#include "media/patches.h"
#include "media/tiles.h"

namespace pumice {

Result<PicturePlan> plan_for_prompt(const PictureSize& size, const ImagePreparation& preparation,
                                    const std::string& name) {
  return preparation.patches ? plan_patches(size, preparation, name) : plan_tiles(size, preparation, name);
}

Result<PreparedPicture> prepare_for_prompt(const Image& image, const ImagePreparation& preparation,
                                           const std::string& name) {
  PreparedPicture picture;
  if (preparation.patches) {
    PUMICE_TRY(PatchedPicture patched, cut_patches(image, preparation, name));
    EncoderInput& whole = picture.inputs.emplace_back();
    whole.values = std::move(patched.values);
    whole.grid = patched.grid;
    return picture;
  }
  PUMICE_TRY(TiledPicture tiled, prepare_tiles(image, preparation, name));
  picture.grid = {tiled.rows, tiled.columns};
  for (std::vector<float>& values : tiled.pictures) picture.inputs.emplace_back().values = std::move(values);
  return picture;
}

} // namespace pumice
