#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/model_file.h"

// Models that have the encoder of their pictures in a file of its own, as llama.cpp's mmproj files are.
namespace pumice {

// Whether a GGUF file's name says that it holds such an encoder, and those in a folder.
bool is_mmproj_name(const std::filesystem::path& path);
std::vector<std::filesystem::path> mmproj_files_in(const std::filesystem::path& folder);

struct PairedFile {
  ModelFile file;
  std::string found; // the name of a file beside the model that nobody has named, if it is read too
};

// Opens a model with that file. If `mmproj` is empty, it is the only mmproj*.gguf in the folder of a GGUF
// file, if it belongs to the model. Errors: those of both files; invalid_file for a pair that does not belong
// together.
Result<PairedFile> open_with_mmproj(const std::filesystem::path& model, const std::filesystem::path& mmproj);

// The file or folder that the encoder of its pictures is loaded from.
std::string tower_path(const ModelFile& model);

} // namespace pumice
