#pragma once

#include <optional>

#include "forecast/step_forecast.h"
#include "model/model.h"

namespace pumice {

// A step of a model on a chip: of one token, or of a prompt.
struct ModelForecast {
  Chip chip;
  uint32_t positions = 1; // that the first token sees, its own included
  Plan plan;
  StepForecast step;

  // Of a prompt on a chip that is not here: with the kernels that are taken where nothing was measured.
  std::optional<double> unmeasured_seconds;

  std::string text() const;
};

// `model` may come from Model::plan(), also with the context of a chip that is not here. `depth`: tokens
// before the one of the step, fewer than the session's context.
Result<ModelForecast> forecast_decoding(const Model& model, const SessionSize& size, const Chip& chip,
                                        uint32_t depth);
// The same of a step that reads `tokens` of a prompt at once. On a chip that is not here every class of
// shapes takes the variant that tuning would take if it measured what is forecast.
Result<ModelForecast> forecast_prompt(const Model& model, SessionSize size, const Chip& chip, uint32_t depth,
                                      uint32_t tokens);

} // namespace pumice
