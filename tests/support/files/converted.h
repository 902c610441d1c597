#pragma once

#include <filesystem>

#include "convert/conversion.h"
#include "support/require.h"

// Writes the model of a folder as one file. Fails the test if that is not possible.
inline pumice::Conversion convert_to(const std::filesystem::path& out, const std::filesystem::path& folder,
                                     pumice::TensorType type) {
  const pumice::ModelFile file = require(pumice::ModelFile::open(folder));
  const auto definition = require(pumice::open_model_definition(file));
  pumice::ConversionOptions options;
  options.mixture = require(pumice::find_mixture(pumice::info(type).name));
  return require(pumice::convert_to_gguf(file, *definition, out, options, {}));
}
