#pragma once

#include <nlohmann/json_fwd.hpp>

#include "kernel/position/position.h"
#include "model/gguf_tensor.h"
#include "models/settings.h"

namespace pumice {

struct DecoderConfig;

// How a model turns its queries and keys: rope_theta, rope_scaling or (since transformers 5) rope_parameters,
// partial_rotary_factor; in GGUF rope.* and the tables that divide the frequencies. Pairs are half_split, as
// Hugging Face has them and llama.cpp for all but `llama`. Needs the config's head_dim and context.
Result<RotaryConfig> read_rotary(const Settings& settings, const DecoderConfig& config,
                                 float default_share = 1);

// The scaling in one rope_scaling or rope_parameters object.
Status read_rotary_scaling(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary);

// The keys and tensors by which GGUF says the same.
void add_gguf_rotary(const DecoderConfig& config, nlohmann::json& metadata, std::vector<GgufTensor>& tensors);

} // namespace pumice
