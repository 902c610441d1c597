#include "picture_input.h"

#include <fmt/format.h>

#include "model/vocabulary.h"

namespace pumice::command {

std::vector<PatchGrid> grids_of(std::span<const EncoderInput> inputs) {
  std::vector<PatchGrid> all;
  for (const EncoderInput& input : inputs) all.push_back(input.grid);
  return all;
}

Result<PictureInput> PictureInput::open(const ModelFile& file, const EncoderShape& shape) {
  const std::vector<uint32_t>& size = shape.input_shape; // [channels, height, width]
  if (size[0] != 3) {
    return Error{Code::unsupported,
                 fmt::format("{}: the model reads pictures of {} channels; only those of 3 (red, green and "
                             "blue) can be made from a file",
                             file.path(), size[0])};
  }
  if (shape.patch_groups) {
    PUMICE_TRY(const ImagePreparation patches, read_patch_preparation(folder_of(file), shape.cutting()));
    return PictureInput(patches);
  }
  PUMICE_TRY(const ImagePreparation preparation, read_image_preparation(folder_of(file), size[1], size[2]));
  return PictureInput(preparation);
}

Result<EncoderInput> PictureInput::read(const std::string& path) const {
  PUMICE_TRY(const Image image, read_image(path_of(path)));
  EncoderInput input;
  PUMICE_TRY(input.values, prepare(image, preparation_, path));
  return input;
}

Result<PromptPicture> PictureInput::read_for_prompt(const std::string& path) const {
  PUMICE_TRY(const Image image, read_image(path_of(path)));
  return prepare_for_prompt(image, preparation_, path);
}

Status PictureInput::read(std::span<const std::string> paths, std::vector<EncoderInput>& inputs) const {
  for (const std::string& path : paths) {
    PUMICE_TRY(EncoderInput input, read(path));
    inputs.push_back(std::move(input));
  }
  return {};
}

} // namespace pumice::command
