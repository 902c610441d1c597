#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "speech/kept_samples.h"
#include "speech/voice_activity.h"

namespace pumice {

// Gives the samples of a sound, one channel at a model's rate, in order.
class SoundSource {
public:
  virtual ~SoundSource() = default;
  // Appends the next samples to `to`, at least one and about `wanted`; none where the sound ends.
  virtual Status read(size_t wanted, std::vector<float>& to) = 0;
  // Of the whole sound; 0 while that is not known.
  virtual uint64_t samples() const { return 0; }
};

// Samples in memory, which must stay where they are.
std::unique_ptr<SoundSource> source_of(std::span<const float> samples);

// Reads a sound as far as it is needed, and keeps what has not been forgotten.
class SoundReader {
public:
  // Without `voice`, all of it may be speech.
  SoundReader(std::unique_ptr<SoundSource> source, uint32_t sample_rate, bool voice);

  // The samples from `at` on, at most `count`, and fewer only where the sound ends. Valid until the next
  // call.
  Result<std::span<const float>> samples(uint64_t at, size_t count);
  // The first sample at or behind `at` that may be speech; nothing where there is none before the end.
  // Forgets what is before it.
  Result<std::optional<uint64_t>> speech(uint64_t at);
  // As far as it was read.
  uint64_t read() const { return kept_.end(); }
  // Of the whole sound, or as far as it was read.
  uint64_t total() const { return std::max(source_ ? source_->samples() : 0, read()); }
  bool ended() const { return ended_; }

private:
  Status read_more(size_t wanted);
  void forget(uint64_t before);

  std::unique_ptr<SoundSource> source_;
  std::optional<VoiceActivity> voice_;
  KeptSamples kept_;
  bool ended_ = false;
};

} // namespace pumice
