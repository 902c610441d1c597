#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// Sound with one channel, the average of the file's channels. Samples are from -1 to 1.
struct Audio {
  uint32_t rate = 0; // samples a second
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / rate; }
};

// The most samples a channel, six hours at 48 kHz. A longer file is refused before memory is allocated for
// it.
inline constexpr uint64_t max_audio_samples = uint64_t{1} << 30;

// Reads WAV (PCM of 8 to 32 bits, floating point), FLAC and Ogg (Vorbis, FLAC). Errors: a damaged or
// truncated file, a file without samples, a rate outside 1,000 to 1,000,000 Hz. If a WAV file does not give
// its length, because it was written to a pipe, it is read to the end of the file.
Result<Audio> read_audio(const std::filesystem::path& path, uint64_t max_samples = max_audio_samples);
Result<Audio> parse_audio(std::span<const std::byte> bytes, const std::string& name,
                          uint64_t max_samples = max_audio_samples);

// The same, resampled to the rate that a model needs.
Result<Audio> read_audio_at(uint32_t rate, const std::filesystem::path& path);
Audio at_rate(Audio audio, uint32_t rate);

} // namespace pumice
