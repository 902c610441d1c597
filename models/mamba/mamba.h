#pragma once

#include <array>

#include "models/decoder/decoder.h"

namespace pumice {

// Mamba 2's mixer (Dao and Gu 2024), which several hybrids have beside attention.
struct MambaConfig {
  uint32_t heads = 0;
  uint32_t head_dim = 0;
  uint32_t groups = 1;
  uint32_t size = 0; // of a channel's state
  uint32_t taps = 0; // of the convolutions
  bool bias = false; // of the input projection
  bool output_bias = false;
  bool convolution_bias = true;
  bool norm = true; // of the result
  bool norm_before_gate = false;
  uint32_t norm_groups = 1;
  float least_step = 0;
  float most_step = 0;
  // Factors of the gate, x, b, c and the steps. GGUF's weights are multiplied by them and by those of what
  // the mixer reads and gives, which are the caller's.
  std::array<float, 5> factors = {1, 1, 1, 1, 1};
  float gguf_input_scale = 1;
  float gguf_result_scale = 1;

  uint32_t columns() const { return heads * head_dim; }
};

// The names of its settings in config.json; GGUF's are the same for all architectures.
struct MambaSettingNames {
  std::string_view heads, head_dim, groups, size, taps, bias, output_bias, convolution_bias;
};
inline constexpr MambaSettingNames hybrid_mamba_settings = {
    "mamba_n_heads", "mamba_d_head",    "mamba_n_groups",  "mamba_d_state",
    "mamba_d_conv",  "mamba_proj_bias", "mamba_proj_bias", "mamba_conv_bias"};

Result<MambaConfig> read_mamba(const Settings& settings, const MambaSettingNames& names);
// Adds the states of the layers that have the mixer: those without attention, or all where all have both.
// What is shown, GGUF's keys, and whether llama.cpp would compute it otherwise. `mixes`: which layers have
// it, if some have neither.
void add_mamba(const Settings& settings, const MambaConfig& mamba, const MambaSettingNames& names,
               Decoder& decoder, const std::vector<bool>& mixes = {});

// A model of nothing but such mixers, each after a norm; and GGUF's keys of its attention.
void build_attentionless(DecoderBuilder& builder,
                         const std::function<TensorId(DecoderBuilder& builder, TensorId x)>& mixer);
nlohmann::json attentionless_metadata();

// The mixer whose tensors' names begin with `prefix`.
TensorId mamba(DecoderBuilder& builder, TensorId x, const MambaConfig& config, const std::string& prefix);

} // namespace pumice
