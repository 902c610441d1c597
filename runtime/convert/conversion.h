#pragma once

#include <filesystem>

#include "base/progress.h"
#include "model/architecture.h"

namespace pumice {

struct ConversionOptions {
  TensorType type = TensorType::f16; // of the matrices
  bool vocabulary = true;            // false: the file says that it has none
};

struct Conversion {
  uint64_t bytes = 0; // of the file
  size_t tensors = 0;
  std::vector<std::string> notes; // sentences for a person: what could not be done as asked
};

// Types that a conversion can be asked for: "F32, F16, ...".
std::string conversion_types();
// not_found, with the names there are, for any other.
Result<TensorType> conversion_type(std::string_view name);

// Writes a Hugging Face folder's model as a GGUF file. `definition` is the one that open_model_definition()
// gave for the folder. Vectors, and the matrices that llama.cpp's quantiser leaves alone too, stay in 32
// bits. Rows that are no whole number of the type's blocks become Q8_0, and failing that F16. With Q4_K the
// head is Q6_K.
Result<Conversion> convert_to_gguf(const ModelFile& file, const ModelDefinition& definition,
                                   const std::filesystem::path& path, const ConversionOptions& options,
                                   const Progress& progress);

} // namespace pumice
