#pragma once

#include <filesystem>

#include "base/progress.h"
#include "model/architecture.h"

namespace pumice {

struct ConversionOptions {
  TensorType type = TensorType::f16; // type of the matrices
  bool vocabulary = true;            // false: write a file without a vocabulary
};

struct Conversion {
  uint64_t bytes = 0; // of the file
  size_t tensors = 0;
  std::vector<std::string> notes; // sentences about what could not be done as requested
};

// The names of the types that a conversion can write: "F32, F16, ...".
std::string conversion_types();
// The type with a name. Error: not_found, with the names above, for any other.
Result<TensorType> conversion_type(std::string_view name);

// Writes a Hugging Face folder's model as a GGUF file: in llama.cpp's form, or else, where it has none, in a
// form of Pumice's own (folder_conversion.h), which a note says. `definition` is the result of
// open_model_definition() for the folder, or of its tower of pictures, which llama.cpp has in a file of its
// own. Vectors, and the matrices that llama.cpp's quantiser does not quantise, are written as F32. If a
// matrix's rows are not a whole number of the type's blocks, it becomes Q8_0 or, if that does not fit either,
// F16. With Q4_K, the head is Q6_K.
Result<Conversion> convert_to_gguf(const ModelFile& file, const ModelDefinition& definition,
                                   const std::filesystem::path& path, const ConversionOptions& options,
                                   const Progress& progress);

} // namespace pumice
