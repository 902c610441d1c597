#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "model/gguf_tensor.h"

namespace pumice {

// A model with the names and the layout of llama.cpp.
struct GgufModel {
  std::string architecture; // general.architecture
  // Every key but the vocabulary's and those that say how the file was made: "llama.block_count": 12. Whole
  // numbers are written as u32 (i32 below zero), others as f32, so 10000.0 is not the same as 10000.
  nlohmann::json metadata = nlohmann::json::object();
  std::vector<GgufTensor> tensors;
};

} // namespace pumice
