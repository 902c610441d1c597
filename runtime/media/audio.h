#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// Sound with one channel: the mean of the file's channels, or one of them where they cancel each other.
// Samples are from -1 to 1.
struct Audio {
  uint32_t rate = 0; // samples a second
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / rate; }
};

// The most samples a channel, six hours at 48 kHz. A longer file is refused before memory is allocated for
// it.
inline constexpr uint64_t max_audio_samples = uint64_t{1} << 30;

// Reads WAV (PCM of 8 to 32 bits, floating point, mu-law, A-law), FLAC and Ogg (Vorbis, FLAC, and Opus where
// this was built with it). Errors: a damaged or truncated file, a file without samples, a rate outside 1,000
// to 1,000,000 Hz. If a WAV file does not give its length, because it was written to a pipe, it is read to
// the end of the file.
Result<Audio> read_audio(const std::filesystem::path& path, uint64_t max_samples = max_audio_samples);
Result<Audio> parse_audio(std::span<const std::byte> bytes, const std::string& name,
                          uint64_t max_samples = max_audio_samples);

// The same, resampled to the rate that a model needs.
Result<Audio> read_audio_at(uint32_t rate, const std::filesystem::path& path);
Audio at_rate(Audio audio, uint32_t rate);

// The same sound piece by piece, of any length in the same memory: mapped files are read as far as they are
// decoded. Of a damaged or truncated file, what can be decoded is read.
class AudioStream {
public:
  static Result<std::unique_ptr<AudioStream>> open(const std::filesystem::path& path, uint32_t rate);
  static Result<std::unique_ptr<AudioStream>> parse(std::string bytes, const std::string& name,
                                                    uint32_t rate);
  ~AudioStream();

  // Appends about `wanted` samples at the rate that was asked for, at least one; none at the end.
  void read(size_t wanted, std::vector<float>& to);
  // What was found wrong with the file so far, a sentence that begins with its name; empty: nothing.
  std::string damage() const;
  uint64_t samples() const; // of the whole sound at that rate, about; 0 where the file does not say
  double seconds() const;   // the same, or where it is not said as far as it was read

private:
  struct State;
  explicit AudioStream(std::unique_ptr<State> state);
  static Result<std::unique_ptr<AudioStream>> start(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

} // namespace pumice
