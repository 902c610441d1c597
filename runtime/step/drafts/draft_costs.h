#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>

namespace pumice {

// What steps cost by their rows, as it was measured, and how many tokens are worth guessing at.
class DraftCosts {
public:
  // Seconds of a step with so many rows before it was measured. What is measured counts for all steps up to
  // the next power of two.
  void guess(uint32_t rows, double seconds) { guesses_[rows] = seconds; }
  // A step of so many rows that the host composed, and one that the device had written itself, which runs
  // while the host does other things: the seconds that the caller waited for its tokens.
  void took(uint32_t rows, double seconds);
  void took_repeated(double seconds);

  // What a step that was guessed at so many seconds takes, by what one of a row takes here.
  double expected(double guess) const;

  // How many tokens of each text to guess at, 0 to `most`. `chances`: of each text that a step continues,
  // how probable it is that a guessed token holds; 0 of one without a guess. A step gives a token of each
  // text and those that hold; the count is the one that gives the most tokens a second. 0 unless that is
  // clearly more than without a guess. `each`: seconds that one more guess of all texts takes. `others`: rows
  // that the step has beside one of each text.
  uint32_t count(std::span<const double> chances, uint32_t most, double each = 0, uint32_t others = 0) const;

private:
  struct Mean {
    double seconds = 0, steps = 0;
    bool known() const { return steps > 0; }
    double value() const { return seconds / steps; }
    void add(double more);
  };
  double seconds(uint32_t rows) const;

  std::map<uint32_t, double> guesses_;
  std::map<uint32_t, Mean> composed_; // without the first step of a size, which compiles its kernels
  std::set<uint32_t> ran_;            // sizes
  Mean repeated_;
};

} // namespace pumice
