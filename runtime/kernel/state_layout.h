#pragma once

#include <cstdint>

#include "kernel/dispatch.h"
#include "shaders/common/state.h"

namespace pumice {

// Which states of a sequence were written.
struct StateHistory {
  uint32_t first = 0;  // the checkpoints from this position on
  uint32_t latest = 0; // the latest is the one before this position; 0: it is not known
};

// What a recurrent operation keeps of each sequence: so many floats, which each position changes. There is
// room for the latest states, two and one for each token that a step may guess at, and for that before every
// position that is a multiple of the interval, the checkpoints, both in rings:
//   [sequence][2 + drafts + checkpoints][floats]
// A sequence can go back to where a state was kept, and nowhere else. A step of one row and its guesses
// leaves the state that it begins with, and those behind each row; a longer one leaves what it begins with
// only if that is a checkpoint.
struct StateLayout {
  static constexpr uint32_t interval = STATE_INTERVAL;

  uint32_t floats = 0;
  uint32_t sequences = 1;
  uint32_t checkpoints = 1;
  uint32_t drafts = 0; // most tokens of a sequence that a step guesses at

  uint64_t state_bytes() const { return uint64_t{floats} * 4; }
  uint64_t latest() const { return uint64_t{2} + drafts; }
  uint64_t bytes() const { return (latest() + checkpoints) * sequences * state_bytes(); }
  // Where the state of a sequence before `position` begins.
  uint64_t offset(uint32_t sequence, uint32_t position) const {
    const uint64_t place =
        position % interval ? position % latest() : latest() + position / interval % checkpoints;
    return ((latest() + checkpoints) * sequence + place) * state_bytes();
  }
  // Whether a step from `position` to `end` that stopped halfway has left the state before `position`.
  static bool survives(uint32_t position, uint32_t end, uint32_t drafts) {
    return position % interval == 0 || end <= position + 1 + drafts;
  }
  // Whether the state before `position` is there, if all positions before `written_end` have been written.
  bool holds(uint32_t position, const StateHistory& history, uint32_t written_end) const {
    if (position == 0) return true; // it is zero
    if (position % interval) return position == history.latest;
    return position >= history.first && position <= written_end &&
           written_end < position + uint64_t{interval} * checkpoints;
  }
};

// Where one operation's states are.
struct StateRef {
  StateLayout layout;
  BufferRef buffer;
};

} // namespace pumice
