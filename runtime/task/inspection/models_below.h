#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace pumice {

// Of the files that hold a model's weights, as far as they are there.
uint64_t weight_bytes(const std::filesystem::path& model);

// A model among the files below a folder.
struct ModelBelow {
  // Its path below the folder, in UTF-8, without .gguf and without the number of a part, unless another one
  // would have that name, too.
  std::string name;
  std::filesystem::path path; // for ModelFile::open()
  std::string stamp;          // another one once a file of the model is another
  uint64_t bytes = 0;         // weight_bytes()
  int64_t modified = 0;       // when the latest of its files was written, in seconds since 1970
};

// GGUF files, a split one once, and folders with a config.json and weights, which are not searched any
// further; by their names. Without hidden files, and without encoders of pictures that lie in a file of their
// own (mmproj*.gguf) and belong to a model beside them.
Result<std::vector<ModelBelow>> models_below(const std::filesystem::path& folder);

} // namespace pumice
