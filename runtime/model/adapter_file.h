#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/tensor_type.h"

namespace pumice {

// The two matrices that an adapter has for one of a model's: what is added to it is scaling * up * down.
struct AdapterPair {
  std::string name;               // of the model's matrix, without ".weight"
  std::string down_name;          // in the adapter's file, for messages
  uint32_t rank = 0;              // rows of `down`, columns of `up`
  uint32_t rows = 0, columns = 0; // of the model's matrix
  float scaling = 1;
  std::vector<float> down, up; // row by row
};

// A low-rank adapter as it is on disk:
//   - a folder of Hugging Face's PEFT, with adapter_config.json and adapter_model.safetensors, or either of
//   the two files;
//   - a GGUF file of llama.cpp, whose general.type is "adapter" and adapter.type "lora".
// What an adapter of another kind would do, such as DoRA's norms, whole layers that were trained with it, or
// biases, is `unsupported`, by name.
struct AdapterFile {
  std::string path;                     // in UTF-8, for messages
  bool gguf_names = false;              // otherwise names are those of Hugging Face's model
  TensorType numbers = TensorType::f32; // F16 or BF16 where all tensors are of that type
  std::vector<AdapterPair> pairs;

  static Result<AdapterFile> read(const std::filesystem::path& path);
};

} // namespace pumice
