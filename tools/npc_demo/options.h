#pragma once

#include <string>
#include <vector>

#include "vulkan_functions.h"

namespace npc {

enum class Generation { off, on, alternate };

struct Options {
  std::string model = "models/pretrained/stories-2m.gguf";
  std::string device;
  std::string cache;
  bool headless = false;
  bool submit = false;  // use pumice_work_advance instead of pumice_work_record
  bool control = false; // submit a dispatch of known length with each slice
  bool validate = false;
  bool verbose = false;
  bool help = false;
  VkExtent2D size = {960, 540};
  uint64_t frames = 0; // counted from when the model is loaded; 0: until the window is closed
  std::vector<float> budgets_us = {2000};
  bool compare = false; // measure each budget, and as many frames without generation
  Generation generation = Generation::on;
  uint32_t tokens = 0;
  uint64_t seed = 1;
  std::string csv;
  std::string text;
  std::string screenshot;
  std::string frames_out;
  uint64_t every = 60;
};

extern const char* const usage;

// Throws a Failure that says which option is wrong and why.
Options read_options(int argc, char** argv);

} // namespace npc
