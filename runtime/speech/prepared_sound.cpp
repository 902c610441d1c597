#include "speech/prepared_sound.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "speech/audio_features.h"
#include "speech/host_log_mel.h"

namespace pumice {

namespace {

constexpr size_t most_windows = 240; // two hours

} // namespace

EncoderInput SoundPreparation::input(std::vector<float> features, uint32_t frames) const {
  EncoderInput input;
  input.values = std::move(features);
  const uint32_t all = spectrum.frames() / 2;
  // A convolution makes a position of each second frame.
  input.seen = windows.one ? std::min((frames + 1) / 2, all) : all;
  input.grid = {1, input.seen / windows.joined};
  return input;
}

Result<SoundPreparation> sound_preparation(const ModelFile& file, const ModelShape& tower) {
  SoundPreparation preparation;
  preparation.windows = *tower.encoder->sound_windows;
  LogMelShape& spectrum = preparation.spectrum;
  if (file.format() != ModelFile::Format::gguf) {
    PUMICE_TRY(spectrum, read_log_mel_shape(file, tower));
    if (spectrum.samples % spectrum.hop == 0) return preparation;
    return Error{Code::unsupported,
                 fmt::format("{}: a window has {} samples: expected a multiple of the hop_length of {}",
                             file.path(), spectrum.samples, spectrum.hop)};
  }
  // All else is as the class has it.
  spectrum.mels = tower.encoder->input_shape[0];
  spectrum.samples = tower.encoder->input_shape[1] * spectrum.hop;
  PUMICE_CHECK(check(spectrum));
  return preparation;
}

size_t most_samples(const SoundPreparation& preparation) {
  return most_windows * preparation.spectrum.samples;
}

Result<PreparedPicture> prepare_sound(std::span<const float> samples, const SoundPreparation& preparation,
                                      const std::string& name) try {
  LogMelShape whole = preparation.spectrum;
  const size_t each = whole.samples;
  if (preparation.windows.one) samples = samples.first(std::min(samples.size(), each));
  const size_t count = std::max<size_t>((samples.size() + each - 1) / each, 1);
  if (count > most_windows) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: it lasts {:.0f} seconds, and this model hears at most {:.0f} at once", name,
                             static_cast<double>(samples.size()) / whole.sample_rate,
                             static_cast<double>(most_windows * each) / whole.sample_rate)};
  }
  const auto frames = static_cast<uint32_t>((samples.size() + whole.hop - 1) / whole.hop);
  if (samples.empty() || preparation.input({}, frames).grid.count() == 0)
    return Error{Code::invalid_argument, fmt::format("{}: the sound is too short for a row", name)};
  whole.samples = static_cast<uint32_t>(count * each);
  const std::vector<float> features = host_log_mel(samples, whole);
  const size_t columns = preparation.spectrum.frames();
  PreparedPicture sound;
  sound.grid = {static_cast<uint32_t>(count - 1), 1};
  for (size_t window = 0; window < count; ++window) {
    std::vector<float> values;
    for (size_t mel = 0; mel < whole.mels; ++mel) {
      const auto first = features.begin() + static_cast<ptrdiff_t>((mel * count + window) * columns);
      values.insert(values.end(), first, first + static_cast<ptrdiff_t>(columns));
    }
    sound.inputs.push_back(preparation.input(std::move(values), frames));
  }
  return sound;
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for its spectrum", name)};
}

} // namespace pumice
