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

// Reads the rotations of a model that has another in its layers with a window: `in_windows`. The config's is
// that of the others. Both must have their pairs, their dimensions and the bases of a file without one.
// Hugging Face: rope_parameters with an object for each type of layer; before transformers 5, rope_theta,
// rope_scaling and rope_local_base_freq. GGUF: rope.*, and rope.*_swa.
Status read_rotary_in_windows(const Settings& settings, DecoderConfig& config, RotaryConfig& in_windows);

// Reads the scaling from a rope_scaling or rope_parameters object. `rotary` has its dimensions already.
Status read_rotary_scaling(const Fields& scaling, const DecoderConfig& config, RotaryConfig& rotary);

// Adds the keys and tensors that express the same in GGUF.
void add_gguf_rotary(const DecoderConfig& config, nlohmann::json& metadata, std::vector<GgufTensor>& tensors);
// The keys of read_rotary_in_windows().
nlohmann::json gguf_rotary_in_windows(const RotaryConfig& in_windows);

} // namespace pumice
