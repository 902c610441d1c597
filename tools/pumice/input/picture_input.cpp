#include "input/picture_input.h"

#include "model/picture_preparation.h"

namespace pumice::command {

std::vector<PatchGrid> grids_of(std::span<const EncoderInput> inputs) {
  std::vector<PatchGrid> all;
  for (const EncoderInput& input : inputs) all.push_back(input.grid);
  return all;
}

Result<PictureInput> PictureInput::open(const ModelFile& file, const EncoderShape& shape) {
  PUMICE_TRY(const ImagePreparation preparation, picture_preparation(file, shape));
  return PictureInput(preparation);
}

Result<EncoderInput> PictureInput::read(const std::string& path) const {
  PUMICE_TRY(const Image image, read_image(path_of(path)));
  EncoderInput input;
  PUMICE_TRY(input.values, prepare(image, preparation_, path));
  return input;
}

Result<PreparedPicture> PictureInput::read_for_prompt(const std::string& path) const {
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
