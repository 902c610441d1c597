#pragma once

#include "kernel/convolution/pictures.h"
#include "models/encoder/builder.h"

namespace pumice {

// [taps * channels of a group, out] of a file's [out, channels of a group, taps].
void transpose_taps(std::span<const float> from, uint64_t out, uint64_t channels, uint64_t taps,
                    std::span<float> to);

// Convolutions over a sound's samples, one after the other, with the windows of EncoderConfig::convolutions.
class SoundConvolutions {
public:
  // Begins with the samples.
  explicit SoundConvolutions(EncoderBuilder& builder);

  // The next one, to `out` channels.
  void convolve(const TensorName& name, uint32_t out, bool bias, Activation activation);
  // A norm over the frames, of each channel or of all together.
  void norm_frames(const TensorName& name, bool whole, Activation activation);
  // A layer norm of each frame.
  void norm_each(const TensorName& name, Activation activation);

  TensorId rows() const; // of the step, one for each frame

private:
  static constexpr float eps = 1e-5f; // torch's

  WeightId norm_weight(const TensorName& name, std::string_view suffix);

  EncoderBuilder& builder_;
  size_t next_ = 0;
  TensorId x_;
  uint32_t channels_ = 1, frames_;
  SoundFrames sound_{1, 1};
};

} // namespace pumice
