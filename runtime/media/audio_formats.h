#pragma once

#include "media/audio.h"

#include <memory>
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
  uint64_t count() const { return taken_ + audio_.samples.size(); }
  uint32_t rate() const { return audio_.rate; }
  // Appends what was added since the last call to `to`, or returns the first error.
  Status take(std::vector<float>& to);
  Result<Audio> finish(); // the whole sound, or the first error

private:
  bool reserve(size_t frames) noexcept;
  Status check() const;

  std::string name_;
  uint64_t max_samples_;
  uint64_t taken_ = 0; // samples that take() has handed out
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

// Decodes a file piece by piece. Nothing here throws.
class AudioDecoder {
public:
  virtual ~AudioDecoder() = default;
  // Passes the next samples to the sink. False: there are none, because the file has ended or is damaged; the
  // sink then has the error.
  virtual bool decode_more() = 0;
  virtual uint64_t announced() const { return 0; } // samples a channel of the file; 0: it does not say
  virtual uint64_t position() const = 0;           // bytes of the file that will not be read again
};

// A format that is recognised by its first bytes. open() returns null where the sink has an error.
bool is_wav(std::span<const std::byte> bytes);
std::unique_ptr<AudioDecoder> open_wav(std::span<const std::byte> bytes, AudioSink& sink);

bool is_flac(std::span<const std::byte> bytes);
std::unique_ptr<AudioDecoder> open_flac(std::span<const std::byte> bytes, AudioSink& sink);

bool is_ogg(std::span<const std::byte> bytes);
std::unique_ptr<AudioDecoder> open_ogg(std::span<const std::byte> bytes, AudioSink& sink);
// Pages that were checked before.
std::unique_ptr<AudioDecoder> open_ogg_flac(std::span<const std::byte> bytes, AudioSink& sink);
std::unique_ptr<AudioDecoder> open_opus(std::span<const std::byte> bytes, AudioSink& sink);

} // namespace pumice
