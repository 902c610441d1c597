#pragma once

#include "models/mamba/mamba.h"

namespace pumice {

// Mamba's first mixer (Gu and Dao 2023), in which each channel is a head.
struct Mamba1Config {
  uint32_t columns = 0;
  uint32_t size = 0; // of a channel's state
  uint32_t rank = 0; // of what steps are projected from
  uint32_t taps = 0; // of the convolution
  bool bias = false; // of the projections from and to the model's columns
  bool convolution_bias = true;
  // RMS norms of what steps are projected from, and of the vectors B and C: with weights, or without any.
  bool norms = false, unit_norms = false;
  float norm_eps = 0;
};

// The names of its settings in config.json; GGUF's are the same for all architectures.
struct Mamba1SettingNames {
  std::string_view size, rank, taps, bias, convolution_bias, expansion;
  bool bias_by_default = false;
};

// Not the norms.
Result<Mamba1Config> read_mamba1(const Settings& settings, const DecoderConfig& config,
                                 const Mamba1SettingNames& names);
// Adds the states of the layers that have the mixer, which are those without attention; what is shown, GGUF's
// keys, and whether llama.cpp would compute it otherwise.
void add_mamba1(const Settings& settings, const Mamba1Config& mamba, const Mamba1SettingNames& names,
                Decoder& decoder);

// The mixer whose tensors' names begin with `prefix`.
TensorId mamba1(DecoderBuilder& builder, TensorId x, const Mamba1Config& config, const std::string& prefix);

} // namespace pumice
