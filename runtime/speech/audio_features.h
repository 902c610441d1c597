#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernel/audio/log_mel.h"
#include "recording/recording.h"
#include "step/encoder.h"

namespace pumice {

// How a speech model hears: the preprocessor_config.json beside its weights, and Whisper's numbers where that
// is silent. An error where it does not give what the encoder reads, or the encoder reads no sound.
Result<LogMelShape> read_log_mel_shape(const ModelFile& file, const ModelShape& shape);

// Turns windows of sound into a speech model's input, on the device. Used by one thread at a time.
class AudioFeatures {
public:
  static Result<std::unique_ptr<AudioFeatures>> create(const Model& model);
  ~AudioFeatures();

  const LogMelShape& shape() const { return shape_; }
  // The features [mels * frames] of at most shape().samples, at shape().sample_rate. Fewer are followed by
  // silence.
  Result<std::vector<float>> compute(std::span<const float> samples);

private:
  AudioFeatures(DeviceContext context, const LogMelShape& shape)
      : context_(std::move(context)), shape_(shape) {}
  Status plan();
  const Buffer& buffer(const BufferRef& ref) const;

  DeviceContext context_;
  LogMelShape shape_;
  Plan plan_;
  std::vector<Buffer> tables_;
  Buffer step_, scratch_, inputs_, outputs_;
  std::unique_ptr<Recording> recording_;
  TimelinePoint submitted_;
};

// Of inputs whose values are samples, each no more than a window of them, makes the inputs of the model's
// encoder.
Status replace_samples(const Model& model, uint32_t sample_rate, std::span<EncoderInput> inputs);

} // namespace pumice
