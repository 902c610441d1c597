#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/audio/log_mel.h"

namespace pumice {

// The features of a sound as kernel/audio/log_mel.h has them, computed by the host a frame at a time: for
// sounds that have more than one window, whose loudest band counts for all of them. So none of them is known
// before all are done.
class HostLogMel {
public:
  // `window`: the shape of one. The samples are followed by zeros up to the end of the last window.
  HostLogMel(std::vector<float> samples, const LogMelShape& window, size_t windows);
  HostLogMel(HostLogMel&& other) noexcept;
  HostLogMel& operator=(HostLogMel&& other) noexcept;
  ~HostLogMel();

  // Computes a frame: some ten microseconds. False: all are done.
  bool advance();
  // The features of each window, [mels, frames].
  std::vector<std::vector<float>> take();

private:
  class Spectrum;

  std::vector<float> samples_;
  LogMelShape window_;
  size_t windows_ = 0, frame_ = 0; // the next one, of all
  double loudest_ = 0;             // logarithm of all so far
  std::unique_ptr<Spectrum> spectrum_;
  std::vector<std::vector<float>> features_;
};

} // namespace pumice
