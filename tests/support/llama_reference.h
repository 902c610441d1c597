#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "io/model_file.h"

// Logits [tokens, vocabulary] of a Hugging Face llama (any heads; default or llama3 rotary positions),
// computed plainly in 64 bits. With `weights`, every matrix's rows are first quantised to that type, padded
// with zeros to whole blocks.
std::vector<double> llama_reference(const pumice::ModelFile& file, std::span<const uint32_t> ids,
                                    std::optional<pumice::TensorType> weights = {});
