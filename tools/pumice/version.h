#pragma once

namespace pumice::command {

inline constexpr const char* version = PUMICE_VERSION; // the project's, from CMakeLists.txt

} // namespace pumice::command
