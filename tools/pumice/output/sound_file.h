#pragma once

#include <span>
#include <string>

#include "io/output_file.h"

namespace pumice::command {

// A WAV file's beginning, of one channel of 16 bits. So many samples as no file has: their number is not
// known.
std::string wav_header(uint32_t rate, uint64_t samples);
inline constexpr uint64_t unknown_samples = UINT64_MAX / 2;
// What follows there, of samples from -1 to 1; what is beyond is cut.
std::string pcm_bytes(std::span<const float> samples);

// A WAV file of one channel, 16 bits, that is written while its samples come; "-" is standard output.
class SoundFile {
public:
  Status open(const std::string& path, uint32_t rate);
  Status write(std::span<const float> samples); // from -1 to 1; what is beyond is cut
  Status finish();
  // Of a sound that is not complete: writes what there is to a file beside the one that was asked for, with a
  // note.
  Status keep_part();

  uint64_t samples() const { return samples_; }
  double seconds() const { return static_cast<double>(samples_) / rate_; }

private:
  bool to_output() const { return path_ == "-"; }
  Status put(std::string_view bytes);

  std::string path_;
  uint32_t rate_ = 1;
  OutputFile file_;
  uint64_t samples_ = 0;
};

} // namespace pumice::command
