#pragma once

#include <memory>

#include "model/model.h"
#include "step/drafts/drafter.h"

namespace pumice {

class Batch;

// Guesses how texts go on with a smaller model of the same vocabulary, which continues them itself. It draws
// with the same noise as the larger model does, so that guesses hold often also where tokens are drawn at
// random.
class ModelDrafter : public Drafter {
public:
  // `target`: the model whose tokens are guessed at, and `size` that of its batch. Errors: another
  // vocabulary, another device.
  static Result<std::unique_ptr<Drafter>> create(std::shared_ptr<const Model> model, const Model& target,
                                                 const SessionSize& size);
  ~ModelDrafter() override;

  // None of a text that is too long for the model.
  Result<std::vector<std::vector<uint32_t>>> draft(std::span<const Text> texts) override;

private:
  ModelDrafter(std::unique_ptr<Batch> batch, uint32_t vocabulary, double guessed_seconds);

  std::unique_ptr<Batch> batch_;
  uint32_t vocabulary_; // of the model whose tokens are guessed at
};

} // namespace pumice
