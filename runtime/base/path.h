#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace pumice {

// Names of files are UTF-8 wherever they are text. On Windows a path that is made of text without these would
// take it to be in another encoding, and not find names beyond ASCII.
std::filesystem::path path_of(std::string_view utf8);
std::string path_text(const std::filesystem::path& path);

} // namespace pumice
