#include "terminal/version.h"

#include <fmt/format.h>

#include "pumice_commit.h"

namespace pumice::command {

namespace {

#if defined(__clang__)
constexpr const char* compiler = "Clang " __clang_version__;
#elif defined(__GNUC__)
constexpr const char* compiler = "GCC " __VERSION__;
#else
constexpr const char* compiler = "another compiler";
#endif

} // namespace

const char* version_number() {
  return PUMICE_VERSION;
}

std::string version_text() {
  const std::string left_out = PUMICE_LEFT_OUT;
  return fmt::format("pumice {}\ncommit: {}\nbuild: {}, {}, {}\nleft out: {}\n", version_number(),
                     PUMICE_COMMIT, PUMICE_BUILD_TYPE, compiler, PUMICE_SYSTEM,
                     left_out.empty() ? "nothing" : left_out);
}

} // namespace pumice::command
