#pragma once

#include <string>

namespace pumice::command {

// "1.0.0": the project's, from CMakeLists.txt.
const char* version_number();
// What --version prints: also the commit, how it was built, and what was left out.
std::string version_text();

} // namespace pumice::command
