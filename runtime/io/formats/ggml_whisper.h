#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "io/formats/ranked_tokens.h"
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

// The names of all tensors that a model with so many layers can have: whisper.cpp's, then Hugging Face's.
std::vector<std::pair<std::string, std::string>> ggml_whisper_names(uint64_t encoder_layers,
                                                                    uint64_t decoder_layers);

// Of the vocabularies that whisper.cpp's files can have: the least and the most tokens of one with so many
// words, for a model with so many positions of sound. The names of the others follow from their number.
std::pair<uint64_t, uint64_t> ggml_whisper_tokens(uint64_t words, uint64_t positions);

} // namespace pumice
