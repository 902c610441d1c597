#include "speech/prepared_sound.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "speech/audio_features.h"

namespace pumice {

namespace {

constexpr size_t most_windows = 240; // two hours
constexpr size_t filled_up = 128;    // a tower reads a multiple of so many samples, the last of which are 0

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

EncoderInput sound_input(std::vector<float> samples, const EncoderShape& tower) {
  const size_t most = tower.input_values();
  samples.resize(std::min((samples.size() + filled_up - 1) / filled_up * filled_up, most));
  EncoderInput input;
  input.values = std::move(samples);
  const uint32_t joined = tower.sound_windows->joined;
  input.grid = {1, (tower.context + joined - 1) / joined};
  return input;
}

Result<SoundPreparation> sound_preparation(const ModelFile& file, const ModelShape& tower) {
  SoundPreparation preparation;
  preparation.windows = *tower.encoder->sound_windows;
  LogMelShape& spectrum = preparation.spectrum;
  if (tower.encoder->kind == InputKind::samples) {
    preparation.tower = tower.encoder;
    spectrum.samples = tower.encoder->input_values();
    return preparation;
  }
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

PreparedPicture PreparingSound::finish() {
  std::vector<std::vector<float>> windows = spectrum.take();
  for (size_t i = 0; i < windows.size(); ++i) sound.inputs[i].values = std::move(windows[i]);
  return std::move(sound);
}

Result<PreparingSound> begin_sound(std::vector<float> samples, const SoundPreparation& preparation,
                                   const std::string& name) {
  const LogMelShape& window = preparation.spectrum;
  const size_t each = window.samples;
  if (preparation.tower) {
    EncoderInput input = sound_input(std::move(samples), *preparation.tower);
    if (preparation.tower->frames(static_cast<uint32_t>(input.values.size())) == 0)
      return Error{Code::invalid_argument, fmt::format("{}: the sound is too short for a row", name)};
    return PreparingSound{{{0, 1}, {std::move(input)}}, HostLogMel({}, window, 0)};
  }
  if (preparation.windows.one) samples.resize(std::min(samples.size(), each));
  const size_t count = std::max<size_t>((samples.size() + each - 1) / each, 1);
  if (count > most_windows) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: it lasts {:.0f} seconds, and this model hears at most {:.0f} at once", name,
                             static_cast<double>(samples.size()) / window.sample_rate,
                             static_cast<double>(most_windows * each) / window.sample_rate)};
  }
  const auto frames = static_cast<uint32_t>((samples.size() + window.hop - 1) / window.hop);
  const EncoderInput input = preparation.input({}, frames);
  if (samples.empty() || input.grid.count() == 0)
    return Error{Code::invalid_argument, fmt::format("{}: the sound is too short for a row", name)};
  PreparedPicture sound{{static_cast<uint32_t>(count - 1), 1}, std::vector<EncoderInput>(count, input)};
  return PreparingSound{std::move(sound), HostLogMel(std::move(samples), window, count)};
}

Result<PreparedPicture> prepare_sound(std::vector<float> samples, const SoundPreparation& preparation,
                                      const std::string& name, const std::function<bool()>& goes_on) try {
  PUMICE_TRY(PreparingSound preparing, begin_sound(std::move(samples), preparation, name));
  constexpr size_t frames = 256; // between two questions
  for (size_t i = 1; preparing.spectrum.advance(); ++i) {
    if (i % frames == 0 && goes_on && !goes_on())
      return Error{Code::cancelled, fmt::format("{}: its spectrum was cancelled", name)};
  }
  return preparing.finish();
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for its spectrum", name)};
}

} // namespace pumice
