#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "input/input_stream.h"
#include "media/audio.h"
#include "media/resample.h"
#include "speech/sound_source.h"

namespace pumice::command {

// Samples without a header, of one channel, least significant byte first.
struct RawSound {
  bool floats = false; // 32 bits; else whole numbers of 16
  uint32_t rate = 16000;

  size_t sample_bytes() const { return floats ? 4 : 2; }
};

// A sound that a command reads piece by piece: a file, a pipe, or standard input under the name "-". Files
// and raw samples take the same memory whatever their length; what else comes from a pipe is read at once.
class SoundInput {
public:
  // `rate`: the model's. Without `raw`, the file says what it is.
  static Result<std::shared_ptr<SoundInput>> open(const std::string& path, uint32_t rate,
                                                  const std::optional<RawSound>& raw);

  // Appends about `wanted` samples, at least one; none at the end.
  Status read(size_t wanted, std::vector<float>& to);
  // Appends those raw samples that have arrived, without waiting for more.
  Status read_arrived(std::vector<float>& to) { return read_raw(false, to); }
  bool ended() const { return ended_; }
  uint64_t samples() const { return stream_ ? stream_->samples() : 0; }
  double seconds() const; // of the whole sound, or where that is not known as far as it was read
  // What was wrong with what was read so far, a sentence that begins with the input's name; empty: nothing.
  std::string damage() const { return stream_ ? stream_->damage() : damage_; }

  // What a transcriber reads. Both keep the input.
  static std::unique_ptr<SoundSource> source(std::shared_ptr<SoundInput> input);

private:
  SoundInput(std::string path, uint32_t rate) : input_(std::move(path)), rate_(rate) {}
  Status read_raw(bool wait, std::vector<float>& to);

  std::unique_ptr<AudioStream> stream_; // of a file
  // Of raw samples.
  InputStream input_;
  uint32_t rate_;
  RawSound raw_;
  std::optional<Resampler> resampler_;
  std::string bytes_; // of a sample that is not whole yet
  uint64_t count_ = 0;
  std::string damage_;
  bool ended_ = false;
};

} // namespace pumice::command
