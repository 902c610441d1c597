#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pumice {

// A form as a table over tokens: what may follow at each place that a text can come to, and where that leads.
// Whoever has it can follow the form without looking into tokens. Tokens that lead on alike from all places
// are one class.
struct FormTable {
  struct Step {
    uint16_t token_class = 0;
    uint16_t to = 0; // a place
  };
  // Most places, and most steps of all places together.
  static constexpr size_t most_places = 1024;
  static constexpr size_t most_steps = 1 << 16;

  std::vector<uint16_t> classes; // of each token; class 0 may follow nowhere
  uint32_t class_count = 1;
  // Of each place, by class; there is at least one. A text begins at the first place. An end token leads back
  // to its own place.
  std::vector<std::vector<Step>> places;

  // Where a token leads from a place; nothing: it may not follow.
  std::optional<uint32_t> next(uint32_t place, uint32_t token) const;
};

} // namespace pumice
