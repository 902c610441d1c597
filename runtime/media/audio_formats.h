#pragma once

#include "media/audio.h"

#include <optional>

// The formats that audio.cpp tells apart by their first bytes.
namespace pumice {

// Where a decoder's samples are averaged to one channel. Nothing here throws, as decoders written in C call
// it: what goes wrong is kept, and add() is false from then on.
class AudioSink {
public:
  AudioSink(std::string name, uint64_t max_samples) : name_(std::move(name)), max_samples_(max_samples) {}

  // What the samples to come are; it may be said again, unchanged.
  bool start(uint64_t rate, uint64_t channels) noexcept;
  // The next moments, of one sample a channel in any type: sample(moment, channel) * scale.
  template <class Sample>
  bool add(size_t moments, float scale, Sample sample) noexcept;

  void fail(Code code,
            std::string_view what) noexcept; // "NAME: WHAT"; the first failure is the one that is kept
  bool failed() const { return error_.has_value(); }
  const std::string& name() const { return name_; }
  uint64_t count() const { return audio_.samples.size(); }
  Result<Audio> finish(); // what came, or what went wrong

private:
  bool reserve(size_t moments) noexcept;

  std::string name_;
  uint64_t max_samples_;
  uint64_t channels_ = 0;
  Audio audio_;
  std::optional<Error> error_;
};

template <class Sample>
bool AudioSink::add(size_t moments, float scale, Sample sample) noexcept {
  if (!reserve(moments)) return false;
  for (size_t moment = 0; moment < moments; ++moment) {
    float sum = 0;
    for (size_t channel = 0; channel < channels_; ++channel)
      sum += static_cast<float>(sample(moment, channel));
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
void parse_ogg_flac(std::span<const std::byte> bytes, AudioSink& sink); // pages that were looked at already

} // namespace pumice
