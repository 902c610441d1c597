#pragma once

#include <filesystem>
#include <string_view>

#include "io/model_file.h"
#include "support/files/temporary_folder.h"

// Models whose plans have all kernels, and all families with variants in sizes that people use. Their weights
// are zeros: nothing runs.

// The types of weights whose costs decide the order of products' variants: plain ones, a block with a scale,
// and blocks with many.
inline constexpr const char* cost_types[] = {"F16", "Q4_0", "Q4_K", "Q6_K"};

// A llama whose matrices have this type: as wide as one of 1 billion weights, or of 8. It has two layers: the
// last one computes only the rows of the output.
pumice::Result<pumice::ModelFile> llama_model(pumice::TensorType type, bool large);

// The families of kernels that llamas do not have, and have variants.
inline constexpr const char* recurrence_families[] = {"delta_rule", "selective_scan"};

// A model of two layers, one of which has such an operation, as wide as a small and as a large one are: a
// Qwen 3.5 or a Mamba 2. Its file is in the folder.
pumice::Result<pumice::ModelFile> recurrent_model(std::string_view family, bool large,
                                                  const TemporaryFolder& folder);

// The model that a folder's config.json describes; its file is in the other folder.
pumice::Result<pumice::ModelFile> folder_model(const std::filesystem::path& config,
                                               const TemporaryFolder& folder);
