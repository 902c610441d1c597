#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace pumice {

// Finds where a sound may hold speech, by the energy of frames of 20 ms: those that are louder than the noise
// around them, which is the quietest that it was within some seconds (as Martin's minimum statistics have it,
// 2001). It keeps what is loud, speech or not, and what lies within 0.3 s of it.
class VoiceActivity {
public:
  struct Options {
    float above_noise = 9;  // decibels
    float silence = -60;    // decibels of full scale: what is quieter is silence
    float loud = -35;       // what is louder is never noise
    double noise_past = 3;  // seconds before a frame, in which the noise is measured
    double noise_after = 1; // and after it, which must be known before it is decided
  };

  explicit VoiceActivity(uint32_t sample_rate) : VoiceActivity(sample_rate, Options()) {}
  VoiceActivity(uint32_t sample_rate, const Options& options);

  // Takes in the next samples of the sound.
  void push(std::span<const float> samples);
  // There are no more samples.
  void end();

  // Samples from the beginning of the sound.
  struct Range {
    uint64_t begin = 0, end = 0;
  };
  // The first stretch that may be speech at or behind `from`, from there on, as far as it is decided. Nothing
  // if there is none yet.
  std::optional<Range> next(uint64_t from) const;
  // All before this sample is decided.
  uint64_t decided() const;
  // What lies before a sample will not be asked for any more.
  void forget(uint64_t before);

private:
  uint64_t frames() const { return first_ + levels_.size(); }
  uint64_t decided_frames() const;
  void add_frame();
  void decide();
  float noise_at(uint64_t frame) const;

  Options options_;
  uint32_t frame_;                 // samples
  uint64_t past_, after_, around_; // frames
  std::vector<float> part_;        // of a frame that is not whole yet
  uint64_t samples_ = 0;
  bool ended_ = false;
  uint64_t first_ = 0;       // the frame that the lists begin with
  std::deque<float> levels_; // of each frame
  std::deque<bool> loud_;    // of those that were compared with the noise
};

} // namespace pumice
