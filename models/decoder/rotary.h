#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kernel/position/position.h"
#include "model/gguf_tensor.h"
#include "models/settings.h"

namespace pumice {

struct DecoderConfig;

// Reads how a model rotates its queries and keys. Hugging Face: rope_theta, rope_scaling or (since
// transformers 5) rope_parameters, partial_rotary_factor. GGUF: rope.* and the tables of divisors of the
// frequencies. Pairs are half_split, as in Hugging Face's files and in GGUF files of all architectures except
// `llama`. Needs the config's head_dim and context.
Result<RotaryConfig> read_rotary(const Settings& settings, const DecoderConfig& config,
                                 float default_share = 1);

// Reads the scaling from a rope_scaling or rope_parameters object.
Status read_rotary_scaling(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary);

// Adds the keys and tensors that express the same in GGUF.
void add_gguf_rotary(const DecoderConfig& config, nlohmann::json& metadata, std::vector<GgufTensor>& tensors);

} // namespace pumice
