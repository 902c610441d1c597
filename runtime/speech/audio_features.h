#pragma once

#include <memory>
#include <span>
#include <vector>

#include "kernel/audio/log_mel.h"
#include "recording/plan_outputs.h"
#include "recording/recording.h"
#include "step/encoder.h"

namespace pumice {

// Reads how a speech model's features are computed, from preprocessor_config.json beside its weights; missing
// fields get Whisper's values. An error if the features do not fit the encoder's input, or the encoder reads
// no sound.
Result<LogMelShape> read_log_mel_shape(const ModelFile& file, const ModelShape& shape);
// The same; where the encoder reads samples, only how many a window has, and their rate.
Result<LogMelShape> read_sound_shape(const ModelFile& file, const ModelShape& shape);

// Turns windows of sound into a speech model's input, on the device, where that is not the samples. Used by
// one thread at a time.
class AudioFeatures {
public:
  static Result<std::unique_ptr<AudioFeatures>> create(const Model& model);
  ~AudioFeatures();

  const LogMelShape& shape() const { return shape_; }
  // The features [mels * frames] of at most shape().samples samples at shape().sample_rate. Fewer samples are
  // padded with silence. Where the encoder reads samples, they are its features.
  Result<std::vector<float>> compute(std::span<const float> samples);

private:
  AudioFeatures(DeviceContext context, const LogMelShape& shape)
      : context_(std::move(context)), shape_(shape) {}
  Status plan();
  const Buffer& buffer(const BufferRef& ref) const;

  DeviceContext context_;
  LogMelShape shape_;
  bool samples_ = false; // are what the encoder reads
  Plan plan_;
  std::vector<Buffer> tables_;
  Buffer step_, scratch_, inputs_;
  PlanOutputs outputs_;
  std::unique_ptr<Recording> recording_;
  TimelinePoint submitted_;
};

// Replaces samples by features in the values of inputs, so that the model's encoder can read them. Each input
// has at most one window of samples.
Status replace_samples(const Model& model, uint32_t sample_rate, std::span<EncoderInput> inputs);

} // namespace pumice
