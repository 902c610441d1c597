#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "io/ranked_tokens.h"
#include "io/tensor_view.h"

namespace pumice {

// A speech model as whisper.cpp has it (ggml-*.bin), in the form of a Hugging Face folder. The views are of
// the bytes that were read, which must outlive it.
struct GgmlWhisper {
  nlohmann::json config; // with the settings of generation_config.json and, as an object of that name without
                         // its ending, of preprocessor_config.json
  std::vector<TensorView> tensors;
  RankedTokens tokens;
};

// Whether a file begins as all of ggml's files did before GGUF.
bool is_ggml(std::span<const std::byte> bytes);

// Reads and checks a file: every tensor lies inside the bytes. Errors: invalid_file; unsupported, also of the
// files of other models. Both name `file`.
Result<GgmlWhisper> read_ggml_whisper(std::span<const std::byte> bytes, const std::string& file);

} // namespace pumice
