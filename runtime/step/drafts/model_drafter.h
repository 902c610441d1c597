#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernel/sampling/sampling.h"
#include "model/model.h"

namespace pumice {

class Batch;

// Guesses how texts go on with a smaller model of the same vocabulary, which continues them itself. It draws
// with the same noise as the larger model does, so that guesses hold often also where tokens are drawn at
// random.
class ModelDrafter {
public:
  // `target`: the model whose tokens are guessed at, and `size` that of its batch. Errors: another
  // vocabulary, another device.
  static Result<std::unique_ptr<ModelDrafter>> create(std::shared_ptr<const Model> model, const Model& target,
                                                      const SessionSize& size);
  ~ModelDrafter();

  struct Text {
    std::span<const uint32_t> tokens;
    const SamplingParams* sampling = nullptr;
    uint32_t most = 0; // tokens to guess at, at least 1
  };
  // The next tokens of each text, at most as many as it asks for; none of one that is too long for the model.
  // Waits for them.
  Result<std::vector<std::vector<uint32_t>>> draft(std::span<const Text> texts);
  // How many of a text's guesses held, up to the first that did not.
  void learn(size_t guessed, size_t held);

  // How probable it is that a guess holds, if those before it did. What has not been tried for long counts
  // less.
  double chance() const { return held_ / tried_; }
  // What guessing at one more token of all texts takes; nothing before it was measured.
  std::optional<double> seconds() const {
    return tokens_ > 0 ? std::optional(seconds_ / tokens_) : std::nullopt;
  }
  double guessed_seconds() const { return guessed_seconds_; } // of a step
  // A step went by without guesses of this model.
  void rest();

private:
  ModelDrafter(std::unique_ptr<Batch> batch, uint32_t vocabulary);

  std::unique_ptr<Batch> batch_;
  uint32_t vocabulary_; // of the model whose tokens are guessed at
  double guessed_seconds_ = 0;
  double held_ = 3, tried_ = 4;     // the latest weigh the most; at first a guess
  double seconds_ = 0, tokens_ = 0; // the same, of the longest draft of each call
  bool ran_ = false;                // its kernels are compiled
};

} // namespace pumice
