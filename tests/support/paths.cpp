#include "support/paths.h"

std::filesystem::path source_folder() {
  return PUMICE_SOURCE_DIR;
}

std::filesystem::path command_path() {
#ifdef PUMICE_COMMAND
  return PUMICE_COMMAND;
#else
  return {};
#endif
}

std::filesystem::path crashing_vulkan() {
#ifdef PUMICE_CRASHING_VULKAN
  return PUMICE_CRASHING_VULKAN;
#else
  return {};
#endif
}
