#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "generate/prepared_picture.h"
#include "kernel/audio/log_mel.h"
#include "speech/host_log_mel.h"

namespace pumice {

// How sounds are prepared for the prompts of a decoder that hears.
struct SoundPreparation {
  LogMelShape spectrum; // of a window
  SoundWindows windows;
  std::optional<EncoderShape> tower = {}; // one that reads samples

  // What the tower reads of a window that the sound fills up to `frames`, and how many rows that gives.
  EncoderInput input(std::vector<float> features, uint32_t frames) const;
};

// What a tower of samples reads of a sound, of which the end is cut off if it is too long.
EncoderInput sound_input(std::vector<float> samples, const EncoderShape& tower);

// `file`: of the tower, whose shape is given: a folder, or an mmproj file.
Result<SoundPreparation> sound_preparation(const ModelFile& file, const ModelShape& tower);

// Longer sounds are refused.
size_t most_samples(const SoundPreparation& preparation);

// A sound whose spectrum is being computed. Its windows are as a picture's tiles, see PreparedPicture.
struct PreparingSound {
  PreparedPicture sound; // the inputs have no values yet
  HostLogMel spectrum;   // which gives them

  // Once the spectrum is done.
  PreparedPicture finish();
};

// `samples`: at the spectrum's rate. invalid_argument for a sound that gives no row, or is too long; `name`
// names it.
Result<PreparingSound> begin_sound(std::vector<float> samples, const SoundPreparation& preparation,
                                   const std::string& name);
// The same with its spectrum. `goes_on` is called now and then; false: cancelled.
Result<PreparedPicture> prepare_sound(std::vector<float> samples, const SoundPreparation& preparation,
                                      const std::string& name, const std::function<bool()>& goes_on = {});

} // namespace pumice
