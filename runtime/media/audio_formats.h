#pragma once

#include "media/audio.h"

#include <optional>

// Decoders of the formats that audio.cpp recognises by their first bytes.
namespace pumice {

// Receives a decoder's samples and averages them to one channel. Nothing here throws, because decoders
// written in C call it: the first error is stored, and add() returns false from then on.
class AudioSink {
public:
  AudioSink(std::string name, uint64_t max_samples) : name_(std::move(name)), max_samples_(max_samples) {}

  // Sets the rate and the number of channels. It may be called again with the same values.
  bool start(uint64_t rate, uint64_t channels) noexcept;
  // Adds frames. A frame has one sample of each channel, sample(frame, channel) * scale, of any type.
  template <class Sample>
  bool add(size_t frames, float scale, Sample sample) noexcept;

  // Records an error, "NAME: WHAT". Only the first one is kept.
  void fail(Code code, std::string_view what) noexcept;
  bool failed() const { return error_.has_value(); }
  const std::string& name() const { return name_; }
  uint64_t count() const { return audio_.samples.size(); }
  Result<Audio> finish(); // the sound, or the first error

private:
  bool reserve(size_t frames) noexcept;

  std::string name_;
  uint64_t max_samples_;
  uint64_t channels_ = 0;
  Audio audio_;
  std::optional<Error> error_;
};

template <class Sample>
bool AudioSink::add(size_t frames, float scale, Sample sample) noexcept {
  if (!reserve(frames)) return false;
  for (size_t frame = 0; frame < frames; ++frame) {
    float sum = 0;
    for (size_t channel = 0; channel < channels_; ++channel)
      sum += static_cast<float>(sample(frame, channel));
    audio_.samples.push_back(sum * scale / static_cast<float>(channels_)); // there is room
  }
  return true;
}

bool is_wav(std::span<const std::byte> bytes);
void parse_wav(std::span<const std::byte> bytes, AudioSink& sink);

bool is_flac(std::span<const std::byte> bytes);
void parse_flac(std::span<const std::byte> bytes, AudioSink& sink);

bool is_ogg(std::span<const std::byte> bytes);
void parse_ogg(std::span<const std::byte> bytes, AudioSink& sink);
void parse_ogg_flac(std::span<const std::byte> bytes, AudioSink& sink); // pages that were checked before

} // namespace pumice
