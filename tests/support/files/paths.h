#pragma once

#include <filesystem>

// Where the tests find the sources and the command. Defined in one file, so that no other depends on where
// the checkout lies.
std::filesystem::path source_folder();
std::filesystem::path command_path(); // of the `pumice` command; empty where it is not built
std::filesystem::path mpiexec_path(); // of the plug-in's MPI library; empty where there is no plug-in
std::filesystem::path
crashing_vulkan(); // the library of support/vulkan/crashing_vulkan.c, for --vulkan-loader

// The models that ship with the sources.
inline std::filesystem::path pretrained_folder() {
  return source_folder() / "models" / "pretrained";
}
inline std::filesystem::path stories_model() {
  return pretrained_folder() / "stories-2m.gguf";
}
inline std::filesystem::path dates_model() {
  return pretrained_folder() / "dates";
}
