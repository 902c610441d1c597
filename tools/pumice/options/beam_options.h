#pragma once

#include <optional>

#include <CLI/CLI.hpp>

#include "generate/generation_config.h"

namespace pumice::command {

// The options of beam search. Options that are not given come from the model's settings.
struct BeamOptions {
  std::optional<uint32_t> beams;
  std::optional<float> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<uint32_t> no_repeat_ngram;
  uint32_t hypotheses = 1;

  bool given() const {
    return beams || length_penalty || early_stopping || no_repeat_ngram || hypotheses > 1;
  }
  // Writes the given options into a model's settings. Error: invalid_argument for more hypotheses than beams.
  Status apply(GenerationConfig& config) const;
};
void add_beam_options(CLI::App& app, BeamOptions& options);

} // namespace pumice::command
