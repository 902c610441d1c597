#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace pumice {

// Sound of one channel, the average of those of the file. Full scale is 1.
struct Audio {
  uint32_t rate = 0; // samples a second
  std::vector<float> samples;

  double seconds() const { return static_cast<double>(samples.size()) / rate; }
};

// Six hours at 48 kHz. Sound that is longer is refused before memory is taken for it.
inline constexpr uint64_t most_samples = uint64_t{1} << 30;

// Reads WAV (PCM of 8 to 32 bits, floating point), FLAC and Ogg (Vorbis, FLAC). Damaged or truncated files,
// files without a single sample, and rates outside 1,000 to 1,000,000 are errors. A WAV file whose writer did
// not know its length, as when it comes from a pipe, ends where it ends.
Result<Audio> read_audio(const std::filesystem::path& path, uint64_t max_samples = most_samples);
Result<Audio> parse_audio(std::span<const std::byte> bytes, const std::string& name,
                          uint64_t max_samples = most_samples);

// The same at the rate that a model wants.
Result<Audio> read_audio_at(uint32_t rate, const std::filesystem::path& path);
Audio at_rate(Audio audio, uint32_t rate);

} // namespace pumice
