#pragma once

#include <string>

#include "io/model_file.h"
#include "options/options.h"

// Models that have the encoder of their pictures in a file of its own, as llama.cpp's mmproj files are.
namespace pumice::command {

void add_mmproj_option(CLI::App& sub, std::string& mmproj, const std::string& group);

// Opens a model with that file. If `mmproj` is empty, it is the only mmproj*.gguf in the folder of a GGUF
// file, if it belongs to the model; a note says so.
Result<ModelFile> open_with_mmproj(const std::string& model, const std::string& mmproj);

// The file or folder that the encoder of its pictures is loaded from.
std::string tower_path(const ModelFile& model);

} // namespace pumice::command
