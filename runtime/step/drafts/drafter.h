#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kernel/sampling/sampling.h"

namespace pumice {

// Guesses how texts go on by computing that, which is waited for. It knows how often its guesses hold, and
// what they take.
class Drafter {
public:
  virtual ~Drafter() = default;

  struct Text {
    std::span<const uint32_t> tokens;
    const SamplingParams* sampling = nullptr;
    uint32_t most = 0; // tokens to guess at, at least 1
    uint32_t slot = 0; // of its batch
  };
  // The next tokens of each text, at most as many as it asks for; none of one that cannot be guessed at.
  virtual Result<std::vector<std::vector<uint32_t>>> draft(std::span<const Text> texts) = 0;

  // How many of a text's guesses held, up to the first that did not.
  void learn(size_t guessed, size_t held);
  // A step went by without guesses of this model.
  void rest();
  // How probable it is that a guess holds, if those before it did. What has not been tried for long counts
  // less.
  double chance() const { return held_ / tried_; }
  // What guessing at one more token of all texts takes; nothing before it was measured.
  std::optional<double> seconds() const {
    return tokens_ > 0 ? std::optional(seconds_ / tokens_) : std::nullopt;
  }
  double guessed_seconds() const { return guessed_seconds_; } // of a step

protected:
  explicit Drafter(double guessed_seconds) : guessed_seconds_(guessed_seconds) {}
  // draft() took so long, for at most so many tokens of a text. The first time compiles kernels.
  void took(double seconds, uint32_t tokens);

private:
  double guessed_seconds_;
  double held_ = 3, tried_ = 4;     // the latest weigh the most; at first a guess
  double seconds_ = 0, tokens_ = 0; // the same, of the longest draft of each call
  bool ran_ = false;
};

} // namespace pumice
