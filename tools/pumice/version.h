#pragma once

namespace pumice::command {

inline constexpr const char* version = "0.1.0"; // as in CMakeLists.txt

} // namespace pumice::command
