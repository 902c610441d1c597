#include "support/files/paths.h"

#include <cstdlib>

namespace {

// A folder with the models, the fixtures and the command, where the tests run without a checkout.
std::filesystem::path bundle() {
  const char* folder = std::getenv("PUMICE_TEST_FOLDER");
  return folder ? folder : "";
}

} // namespace

std::filesystem::path source_folder() {
  return bundle().empty() ? PUMICE_SOURCE_DIR : bundle();
}

std::filesystem::path command_path() {
  if (!bundle().empty()) return bundle() / "pumice";
#ifdef PUMICE_COMMAND
  return PUMICE_COMMAND;
#else
  return {};
#endif
}

std::filesystem::path mpiexec_path() {
#ifdef PUMICE_MPIEXEC
  return PUMICE_MPIEXEC;
#else
  return {};
#endif
}

std::filesystem::path crashing_vulkan() {
  if (!bundle().empty()) return bundle() / "libcrashing_vulkan.so";
#ifdef PUMICE_CRASHING_VULKAN
  return PUMICE_CRASHING_VULKAN;
#else
  return {};
#endif
}
