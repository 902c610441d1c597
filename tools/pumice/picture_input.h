#pragma once

#include <string>

#include "io/model_file.h"
#include "media/preprocess.h"
#include "step/encoder.h"

namespace pumice::command {

// Reads pictures and prepares them as the model's preprocessor_config.json says.
class PictureInput {
public:
  static Result<PictureInput> open(const ModelFile& file, const EncoderShape& shape);
  Result<EncoderInput> read(const std::string& path) const;
  // Appends the pictures up to the first one that cannot be read.
  Status read(std::span<const std::string> paths, std::vector<EncoderInput>& inputs) const;

private:
  explicit PictureInput(ImagePreparation preparation) : preparation_(preparation) {}
  ImagePreparation preparation_;
};

} // namespace pumice::command
