#pragma once

#include <memory>
#include <string>

#include "step/drafts/drafter.h"
#include "step/runner.h"

namespace pumice {

// Guesses how texts go on with a layer of the model itself that was trained to (multi-token prediction,
// Tower::prediction). Of each token it reads the token's embedding and what the model's last layer gave for
// the token before it; for guesses behind the first one, what it gave itself. It has keys and values of its
// own, of the positions since the last one that it was not told of: where texts went on without guesses, or
// were restored, it sees no further back. It draws with the model's noise.
class LayerDrafter : public Drafter {
public:
  // `target`: the model whose tokens are guessed at, and `size` that of its batch. Errors: another model,
  // another device.
  static Result<std::unique_ptr<LayerDrafter>> create(std::shared_ptr<const Model> layer, const Model& target,
                                                      const SessionSize& size);
  // What create() needs to read of the target's steps.
  static std::string hidden_name(const Model& target);

  // Another text is in a slot. What it begins with as the one before stays.
  void place(uint32_t slot, std::span<const uint32_t> tokens);
  // What the target's last layer gave for tokens of a slot's text from a position on, a row each. Behind the
  // last of them there is a token. The last few are read with the next draft, those before them at once.
  Status follow(uint32_t slot, std::span<const uint32_t> tokens, uint32_t position,
                std::span<const float> hidden);

  // None of a text whose last token it was not told of.
  Result<std::vector<std::vector<uint32_t>>> draft(std::span<const Text> texts) override;

private:
  // What is known of a slot's text. The hidden state that is read at a position is of the one before it.
  struct Slot {
    std::vector<uint32_t> tokens;
    std::vector<float> unread;   // hidden states of the positions from `end` on
    uint32_t first = 0, end = 0; // positions whose keys and values are in the cache
  };

  LayerDrafter(std::unique_ptr<Runner> runner, double guessed_seconds);
  uint32_t unread(const Slot& slot) const { return static_cast<uint32_t>(slot.unread.size() / columns_); }
  void forget_from(Slot& slot, uint32_t position) const;
  Status read_but(uint32_t slot, uint32_t left);
  Status write(std::span<const StepToken> rows, std::span<const float> hidden);

  std::unique_ptr<Runner> runner_;
  SamplingState sampling_state_;
  uint32_t columns_; // of a hidden state
  std::vector<Slot> slots_;
};

} // namespace pumice
