#include "step/drafts/drafter.h"

#include <algorithm>

namespace pumice {

namespace {

constexpr double memory = 0.97; // of what was learned, with each token: about the last 30 count
// Of what was learned, with each step without guesses: after some hundreds it is tried again.
constexpr double rested_memory = 0.995;
constexpr double first_held = 3, first_tried = 4;

} // namespace

void Drafter::learn(size_t guessed, size_t held) {
  for (size_t i = 0; i < std::min(guessed, held + 1); ++i) {
    held_ = held_ * memory + (i < held);
    tried_ = tried_ * memory + 1;
  }
}

void Drafter::rest() {
  held_ = first_held + (held_ - first_held) * rested_memory;
  tried_ = first_tried + (tried_ - first_tried) * rested_memory;
}

void Drafter::took(double seconds, uint32_t tokens) {
  if (ran_ && tokens > 0) {
    seconds_ = seconds_ * memory + seconds;
    tokens_ = tokens_ * memory + tokens;
  }
  ran_ = ran_ || tokens > 0;
}

} // namespace pumice
