#include "media/audio.h"

#include "io/bytes.h"
#include "io/mapped_file.h"
#include "media/audio_formats.h"
#include "media/resample.h"

#include <algorithm>
#include <cmath>
#include <new>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint64_t min_rate = 1'000, max_rate = 1'000'000;
constexpr uint64_t max_channels = 255;
constexpr float max_sample = 2147483648.0F; // files may hold 32-bit integers stored as floats without scaling

} // namespace

bool AudioSink::start(uint64_t rate, uint64_t channels) noexcept {
  if (failed()) return false;
  if (rate < min_rate || rate > max_rate)
    fail(Code::invalid_file,
         fmt::format("expected {} to {} samples a second, found {}", min_rate, max_rate, rate));
  else if (channels == 0 || channels > max_channels)
    fail(Code::invalid_file, fmt::format("expected 1 to {} channels, found {}", max_channels, channels));
  else if (channels_ != 0 && (channels != channels_ || rate != audio_.rate))
    fail(Code::unsupported,
         fmt::format("expected {} channels at {} Hz throughout, found {} at {} Hz after {} samples",
                     channels_, audio_.rate, channels, rate, count()));
  audio_.rate = static_cast<uint32_t>(rate);
  channels_ = channels;
  return !failed();
}

bool AudioSink::reserve(size_t frames) noexcept {
  if (failed()) return false;
  if (frames > max_samples_ || count() > max_samples_ - frames) {
    fail(Code::unsupported,
         fmt::format("expected sound of at most {} samples a channel, found more", max_samples_));
    return false;
  }
  std::vector<float>& samples = audio_.samples;
  try {
    if (samples.capacity() - samples.size() < frames)
      samples.reserve(std::max(samples.size() + frames, samples.size() * 2));
  } catch (const std::bad_alloc&) {
    fail(Code::out_of_memory, "not enough memory for the sound");
  }
  return !failed();
}

void AudioSink::fail(Code code, std::string_view what) noexcept {
  if (!error_) error_ = Error{code, fmt::format("{}: {}", name_, what)};
}

Result<Audio> AudioSink::finish() {
  if (error_) return *error_;
  if (audio_.samples.empty())
    return Error{Code::invalid_file, fmt::format("{}: expected sound, found none in it", name_)};
  const auto wrong =
      std::ranges::find_if(audio_.samples, [](float x) { return !(std::abs(x) <= max_sample); });
  if (wrong != audio_.samples.end())
    return Error{Code::invalid_file, fmt::format("{}: expected finite samples below 2^31, found {} at {}",
                                                 name_, *wrong, wrong - audio_.samples.begin())};
  return std::move(audio_);
}

Result<Audio> parse_audio(std::span<const std::byte> bytes, const std::string& name, uint64_t max_samples) {
  AudioSink sink(name, max_samples);
  if (is_wav(bytes))
    parse_wav(bytes, sink);
  else if (is_flac(bytes))
    parse_flac(bytes, sink);
  else if (is_ogg(bytes))
    parse_ogg(bytes, sink);
  else if (bytes.empty())
    sink.fail(Code::invalid_file, "expected a WAV, FLAC or Ogg file, found an empty one");
  else
    sink.fail(Code::invalid_file,
              fmt::format("expected a WAV, FLAC or Ogg file, found one that begins with {}",
                          in_quotes(as_text(bytes), 16)));
  return sink.finish();
}

Result<Audio> read_audio(const std::filesystem::path& path, uint64_t max_samples) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  return parse_audio(file.bytes(), file.path(), max_samples);
}

Result<Audio> read_audio_at(uint32_t rate, const std::filesystem::path& path) {
  PUMICE_TRY(Audio audio, read_audio(path));
  try {
    return at_rate(std::move(audio), rate);
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory,
                 fmt::format("{}: not enough memory for the sound at {} Hz", path_text(path), rate)};
  }
}

Audio at_rate(Audio audio, uint32_t rate) {
  if (audio.rate != rate) audio = {rate, resample(audio.samples, audio.rate, rate)};
  return audio;
}

} // namespace pumice
