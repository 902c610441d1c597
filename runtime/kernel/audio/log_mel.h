#pragma once

#include <vector>

#include "graph/graph.h"

namespace pumice {

// Whisper's log-mel spectrum (Radford et al., Robust Speech Recognition via Large-Scale Weak Supervision,
// 2022): the numbers of a preprocessor_config.json.
struct LogMelShape {
  uint32_t sample_rate = 16000; // "sampling_rate"
  uint32_t samples = 480000;    // "n_samples": of an input; shorter ones are followed by zeros
  uint32_t n_fft = 400;         // samples of a frame
  uint32_t hop = 160;           // "hop_length": samples from a frame's middle to the next one's
  uint32_t mels = 80;           // "feature_size": bands

  uint32_t frames() const { return hop > 0 ? samples / hop : 0; } // "nb_max_frames"
  uint32_t bins() const { return n_fft / 2 + 1; }                 // frequencies of the spectrum
};

// An error if the shape is not supported.
Status check(const LogMelShape& shape);

// [mels, bins]: triangles that are even on Slaney's mel scale (Slaney, Auditory Toolbox, 1998) from 0 to 8000
// Hz, of area 1 each.
std::vector<double> mel_filters(const LogMelShape& shape);

// The rows of the step are frames: shape.frames() of each input, one input after the other, so that of the
// step block only the counts are read, frames as tokens and inputs as outputs.

// The logarithm to base 10 of each frame's energy in each band, at least 1e-10. Frames are centred on every
// hop'th sample, reflected at both ends and under a Hann window. inputs: samples [outputs, samples]. output:
// [tokens, mels].
struct LogMelFrames : Operation {
  LogMelShape shape;

  std::string_view name() const override { return "log_mel_frames"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// (max(x, m - 8) + 4) / 4 with m the largest of the input's x, and transposed: an input's frames become its
// one row, band after band. inputs: x [tokens, mels]. output: [outputs, mels * frames], as FrameWindows
// (kernel/convolution/convolution.h) takes it.
struct LogMelFeatures : Operation {
  LogMelShape shape;

  std::string_view name() const override { return "log_mel_features"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// samples [outputs, samples] to features [outputs, mels * frames].
TensorId log_mel(Graph& graph, std::string name, TensorId samples, const LogMelShape& shape);

// A graph that does only that, for a bucket of shape.frames() tokens and one output for each input: the host
// fills "samples" and reads "input_features".
Graph log_mel_graph(const LogMelShape& shape);

} // namespace pumice
