#pragma once

#include <span>
#include <string>
#include <vector>

#include "generate/prepared_picture.h"
#include "io/model_file.h"

namespace pumice::command {

// Of the inputs' patches, which pictures of one size do not have.
std::vector<PatchGrid> grids_of(std::span<const EncoderInput> inputs);

// Reads pictures and prepares them as the model's folder or file says.
class PictureInput {
public:
  static Result<PictureInput> open(const ModelFile& file, const EncoderShape& shape);
  Result<EncoderInput> read(const std::string& path) const;
  Result<PreparedPicture> read_for_prompt(const std::string& path) const;
  // Appends the pictures up to the first one that cannot be read.
  Status read(std::span<const std::string> paths, std::vector<EncoderInput>& inputs) const;

private:
  explicit PictureInput(ImagePreparation preparation) : preparation_(preparation) {}
  ImagePreparation preparation_;
};

} // namespace pumice::command
