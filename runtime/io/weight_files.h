#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::weight_files {

// The files that a model's weights lie in, by their names.

// What a folder's weights are read from, the first of these that it has: a file, or an index of shards. A
// single file is preferred over shards, as in the reference library.
inline constexpr const char* names[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json",
                                        "model.bin",         "pytorch_model.pt",
                                        "pytorch_model.pth", "model.pt",
                                        "model.pth"};

bool file_exists(const std::filesystem::path& path);
std::filesystem::path join(const std::filesystem::path& folder, std::string_view utf8_name);

// The first of `names` that a folder has; null if it has none.
const char* name_in(const std::filesystem::path& folder);
bool is_index(std::string_view name);
// What a file is that weights are not read from, by its name: "has TensorFlow's weights, which are not read".
// Empty: it has none, or they are read.
std::string_view not_read(std::string_view name);
// The same of the first such file that a folder has, with its name. Empty: it has none.
std::string not_read_in(const std::filesystem::path& folder);
// Maps each tensor's name to the name of the shard that holds it.
Result<std::map<std::string, std::string>> read_index(const std::filesystem::path& path);

// The parts of a GGUF file that was split, NAME-00001-of-00003.gguf, in order; of another file itself.
std::vector<std::filesystem::path> parts_of_gguf(const std::filesystem::path& path);

} // namespace pumice::weight_files
