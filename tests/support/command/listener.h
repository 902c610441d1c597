#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "support/embedding.h"

// A sound that is not silent: `samples` of `rate` a second.
inline std::vector<float> sound(size_t samples, uint32_t rate) {
  std::vector<float> wave(samples);
  for (size_t i = 0; i < samples; ++i) {
    const double time = static_cast<double>(i) / rate;
    wave[i] = static_cast<float>(0.4 * std::sin(6.2831853 * (300 + 200 * std::sin(5 * time)) * time));
  }
  return wave;
}

// What is said to a program.
struct Listener {
  struct Segment {
    std::string text;
    std::vector<uint32_t> tokens;
    uint64_t start, end;

    bool operator==(const Segment&) const = default;
  };
  std::vector<Segment> segments;
  size_t words = 0;
  pumice_transcriber* cancels = nullptr;
  pumice_transcriber* destroys = nullptr;
  pumice_status nested = PUMICE_OK;

  static void hear(void* user, const pumice_segment* segment) {
    auto& self = *static_cast<Listener*>(user);
    self.segments.push_back({segment->text,
                             {segment->tokens, segment->tokens + segment->token_count},
                             segment->start_us,
                             segment->end_us});
    self.words += segment->word_count;
    if (self.destroys) pumice_transcriber_destroy(self.destroys);
    if (!self.cancels) return;
    const float silence[8] = {};
    self.nested = pumice_transcriber_transcribe(self.cancels, silence, 8, 0, hear, user, nullptr);
    pumice_transcriber_cancel(self.cancels);
  }
};
