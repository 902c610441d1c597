#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pumice {

// A folder's first entries in their order, for messages about it: it may hold millions of files.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// For messages about a path that does not exist: the paths that do and whose names are the most similar, at
// most three. The name may lack its extension, and a folder on the way may be misspelt.
std::vector<std::string> nearest_files(const std::filesystem::path& path);

// For messages about a folder that is not a model: the models in it, by name, and at most `most` of them. A
// model is a .gguf file, or a folder with a config.json.
std::vector<std::string> models_in(const std::filesystem::path& folder, size_t most);

} // namespace pumice
