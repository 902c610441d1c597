#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "speech/kept_samples.h"
#include "speech/transcription.h"
#include "speech/voice_activity.h"

namespace pumice {

struct LiveOptions {
  double step = 0.5; // seconds of new sound until what is being spoken is heard again
};

// What was understood since the last call.
struct LiveText {
  double start = 0, end = 0; // seconds: of what is being spoken, as far as it was heard
  std::string text;          // goes on from the text before, or begins what is being spoken
  bool ended = false;        // nothing more comes of this
  std::string whole;         // all of it, once it has ended
};
using LiveFunction = std::function<void(const LiveText&)>;

// How many words two passes agree on, where the first `from` were passed on and cannot be taken back: a pass
// that hears one of those in another way does not hold up what follows.
size_t agreed_words(std::span<const std::string> words, std::span<const std::string> before, size_t from);

// Transcribes sound as it arrives. What lies between two pauses is heard again and again while it grows, and
// text is passed on as soon as two passes agree on it (local agreement: Liu et al. 2020, Macháček et al.
// 2023), and the rest after the pause. Used by one thread at a time.
class LiveTranscriber {
public:
  // The transcriber must have been made without voice_activity, and must outlive this.
  LiveTranscriber(Transcriber& transcriber, LiveOptions options);

  // Takes in the next samples, at the transcriber's rate.
  Status push(std::span<const float> samples, const LiveFunction& on_text);
  // There are no more samples.
  Status end(const LiveFunction& on_text);

private:
  Status hear(const LiveFunction& on_text);
  Status hear_once(uint64_t end, bool last, const LiveFunction& on_text);
  void forget(uint64_t before);

  Transcriber& transcriber_;
  LiveOptions options_;
  uint32_t rate_;
  uint64_t longest_; // samples that are heard together
  VoiceActivity voice_;
  KeptSamples kept_;
  bool ended_ = false;
  // What is being spoken.
  bool speaking_ = false;
  uint64_t begin_ = 0, heard_ = 0; // samples: where it begins, and how far it was heard
  std::vector<std::string> words_; // of the last pass
  size_t passed_on_ = 0;           // of those
};

} // namespace pumice
