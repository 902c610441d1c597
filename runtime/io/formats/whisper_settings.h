#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace pumice {

// What all of Whisper's models have, for files that do not say it.

inline constexpr uint32_t whisper_sample_rate = 16000, whisper_n_fft = 400, whisper_hop = 160;
inline constexpr uint32_t whisper_first_timestamp_steps = 50; // the first text begins within a second

// As preprocessor_config.json has it, for spectra of so many bands and so many positions of the encoder.
inline nlohmann::json whisper_preprocessor_config(uint64_t bands, uint64_t positions) {
  return {{"feature_size", bands},
          {"sampling_rate", whisper_sample_rate},
          {"n_fft", whisper_n_fft},
          {"hop_length", whisper_hop},
          {"chunk_length", positions * 2 * whisper_hop / whisper_sample_rate}};
}

} // namespace pumice
