#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "convert/mixture.h"
#include "model/architecture.h"

namespace pumice {

class Importance;

struct ConversionOptions {
  Mixture mixture = {"F16", TensorType::f16, 1}; // types of the matrices
  bool vocabulary = true;                        // false: write a file without a vocabulary
  std::vector<TensorTypeRule> rules;             // for single tensors; the first that matches counts
  const Importance* importance = nullptr;        // how much errors in the weights count, if it is known
  uint64_t split_bytes =
      0; // most bytes of tensors in a file; further ones are in files of their own. 0: one file
  bool dry_run = false; // only say what would be written
};

// A tensor that was written.
struct ConvertedTensor {
  std::string name;
  std::vector<uint64_t> shape; // outermost first
  TensorType from, type;
  uint64_t bytes;
};

struct Conversion {
  uint64_t bytes = 0; // of the files; in a dry run, of their tensors
  size_t tensors = 0;
  std::vector<ConvertedTensor> written;     // of GGUF files
  std::vector<std::filesystem::path> files; // more than one if the model was split
  std::vector<std::string> notes;           // sentences about what could not be done as requested
};

// Writes a model as a GGUF file.
//
// A Hugging Face folder is written in llama.cpp's form, or else, where it has none, in a form of Pumice's own
// (folder_conversion.h), which a note says. `definition` is the result of open_model_definition() for the
// folder, or of its tower of pictures, which llama.cpp has in a file of its own. Vectors, and the matrices
// that llama.cpp's quantiser does not quantise, are written as F32.
//
// Of a GGUF file the settings stay as they are, and so do the tensors that the quantiser does not quantise.
Result<Conversion> convert_to_gguf(const ModelFile& file, const ModelDefinition& definition,
                                   const std::filesystem::path& path, const ConversionOptions& options,
                                   const Progress& progress);

// The same of a GGUF file, which need not be of an architecture that can be run.
Result<Conversion> convert_gguf(const ModelFile& file, const std::filesystem::path& path,
                                const ConversionOptions& options, const Progress& progress);

} // namespace pumice
