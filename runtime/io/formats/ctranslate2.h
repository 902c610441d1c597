#pragma once

#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "io/mapped_file.h"
#include "io/tensor_view.h"

namespace pumice {

// A model of CTranslate2 in the form of a Hugging Face folder: Marian, PEGASUS, M2M-100, BART, mBART, T5 or
// Whisper.
struct Ctranslate2Model {
  nlohmann::json config;
  MappedFile weights; // that the tensors point into
  std::vector<TensorView> tensors;
};

// Whether a folder holds model.bin and no other weights.
bool is_ctranslate2_folder(const std::filesystem::path& folder);

// Reads such a folder, whose config.json is `own`. Weights of 8 bits stay so, as Q8_0, where 32 divides their
// rows; otherwise they become floats, as those of 16 bits do that are integers. Errors: not_found, io,
// invalid_file, unsupported, out_of_memory.
Result<Ctranslate2Model> read_ctranslate2(const std::filesystem::path& folder, const nlohmann::json& own);

} // namespace pumice
