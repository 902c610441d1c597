#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// Whisper's transcripts with times (Radford et al. 2022): before and after each piece of text there is a
// token for a time in the window, so that two of them meet between pieces. Times count in steps of
// WhisperTokens::kStep.

// Makes a decoder write that form.
struct TimestampRule {
  uint32_t end = 0;           // the token that ends a transcript
  uint32_t no_timestamps = 0; // never chosen
  uint32_t first = 0;         // the window's beginning; all timestamps come after every other token
  uint32_t last = 0;          // its end
  uint32_t latest_start = 0;  // the latest that a transcript may begin with

  // A LogitRule; `scores` may be logits or log-probabilities. If all timestamps together are more probable
  // than every other token, one of them is chosen.
  void apply(std::span<float> scores, std::span<const uint32_t> text) const;
};

// A piece of a window's transcript, with its timestamps.
struct TimedTokens {
  uint32_t start = 0, end = 0; // steps from the window's beginning
  std::vector<uint32_t> tokens;
};

struct TimedPieces {
  std::vector<TimedTokens> pieces;
  // Where the next window begins: at the last complete timestamp, or at the end of this window.
  uint32_t next = 0;
};

// Cuts the tokens of a window of `length` steps, without the end token, between two adjacent timestamps.
TimedPieces cut_at_timestamps(std::span<const uint32_t> tokens, uint32_t first_timestamp, uint32_t length);

} // namespace pumice
