#pragma once

#include <span>
#include <string>
#include <vector>

#include "generate/prepared_picture.h"
#include "kernel/audio/log_mel.h"

namespace pumice {

// How sounds are prepared for the prompts of a decoder that hears.
struct SoundPreparation {
  LogMelShape spectrum; // of a window
  SoundWindows windows;

  // What the tower reads of a window that the sound fills up to `frames`, and how many rows that gives.
  EncoderInput input(std::vector<float> features, uint32_t frames) const;
};

// `file`: of the tower, whose shape is given: a folder, or an mmproj file.
Result<SoundPreparation> sound_preparation(const ModelFile& file, const ModelShape& tower);

// Longer sounds are refused.
size_t most_samples(const SoundPreparation& preparation);

// A sound's windows: a picture's tiles, see PreparedPicture. `samples`: at the spectrum's rate.
// invalid_argument for a sound that gives no row; `name` names it.
Result<PreparedPicture> prepare_sound(std::span<const float> samples, const SoundPreparation& preparation,
                                      const std::string& name);

} // namespace pumice
