#pragma once

#include "media/audio.h"

#include <array>
#include <cmath>
#include <memory>
#include <optional>

// Decoders of the formats that audio.cpp recognises by their first bytes.
namespace pumice {

// What to do with a sound that is not read.
inline constexpr const char* conversion_hint =
    "convert it, for example by 'ffmpeg -i IN -ar 16000 -ac 1 OUT.flac'";

// Receives a decoder's samples and makes them one channel. Nothing here throws, because decoders written in C
// call it: the first problem is stored. After fail(), add() returns false; after damage(), what can be
// decoded still is.
class AudioSink {
public:
  AudioSink(std::string name, uint64_t max_samples) : name_(std::move(name)), max_samples_(max_samples) {}

  // Sets the rate and the number of channels. It may be called again with the same values.
  bool start(uint64_t rate, uint64_t channels) noexcept;
  // Adds frames. A frame has one sample of each channel, sample(frame, channel) * scale, of any type.
  template <class Sample>
  bool add(size_t frames, float scale, Sample sample) noexcept;

  // Record a problem, "NAME: WHAT". Only the first one is kept.
  void fail(Code code, std::string_view what) noexcept;
  void damage(std::string_view what) noexcept { note(Code::invalid_file, what); }
  bool failed() const { return failed_; }
  const std::optional<Error>& problem() const { return problem_; }
  const std::string& name() const { return name_; }
  uint64_t count() const { return taken_ + audio_.samples.size(); }
  uint32_t rate() const { return audio_.rate; }
  void take(std::vector<float>& to); // appends what was added since the last call
  Result<Audio> finish();            // the whole sound, or the first problem

private:
  static constexpr uint64_t max_channels = 255;
  static constexpr float max_sample = 2147483648.0F; // files may hold 32-bit integers as floats, not scaled

  // How loud the channels were in the last half a second or so: the squares of their samples, and of their
  // sum.
  struct Levels {
    std::array<double, max_channels> channels = {};
    double sum = 0;
    size_t taken = 0; // the channel that was taken last

    void fade(double factor);
    // The channel to take where the channels cancel each other, as with a microphone of crossed wires.
    std::optional<size_t> instead_of_mean(size_t count);
  };

  void note(Code code, std::string_view what) noexcept;
  bool reserve(size_t frames) noexcept;
  float checked(float sample) noexcept;

  std::string name_;
  uint64_t max_samples_;
  uint64_t taken_ = 0; // samples that take() has handed out
  size_t channels_ = 0;
  Levels levels_;
  Audio audio_;
  std::optional<Error> problem_;
  bool failed_ = false;
};

template <class Sample>
bool AudioSink::add(size_t frames, float scale, Sample sample) noexcept {
  if (!reserve(frames)) return false;
  const auto at = [&](size_t frame, size_t channel) {
    return checked(static_cast<float>(sample(frame, channel)) * scale);
  };
  std::vector<float>& samples = audio_.samples; // there is room
  const size_t begin = samples.size();
  levels_.fade(std::exp(-2.0 * static_cast<double>(frames) / audio_.rate));
  for (size_t frame = 0; frame < frames; ++frame) {
    float sum = 0;
    for (size_t channel = 0; channel < channels_; ++channel) {
      const float x = at(frame, channel);
      sum += x;
      levels_.channels[channel] += double{x} * x;
    }
    levels_.sum += double{sum} * sum;
    samples.push_back(sum / static_cast<float>(channels_));
  }
  if (const auto channel = levels_.instead_of_mean(channels_)) {
    for (size_t frame = 0; frame < frames; ++frame) samples[begin + frame] = at(frame, *channel);
  }
  return true;
}

// Decodes a file piece by piece. Nothing here throws.
class AudioDecoder {
public:
  virtual ~AudioDecoder() = default;
  // Passes the next samples to the sink. False: there are none, because the file has ended or cannot be
  // decoded any further; the sink then has the problem.
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
std::unique_ptr<AudioDecoder> open_ogg_flac(std::span<const std::byte> bytes, AudioSink& sink);
std::unique_ptr<AudioDecoder> open_opus(std::span<const std::byte> bytes, AudioSink& sink);

} // namespace pumice
