#pragma once

#include "forecast/step_forecast.h"
#include "model/model.h"

namespace pumice {

// A step of one token of a model on a chip.
struct ModelForecast {
  Chip chip;
  uint32_t positions = 1; // that the token sees, its own included
  Plan plan;
  StepForecast step;

  std::string text() const { return forecast_text(plan, chip, step, positions); }
};

// `model` may come from Model::plan(), also with the context of a chip that is not here. `depth`: tokens
// before the one of the step, fewer than the session's context.
Result<ModelForecast> forecast_decoding(const Model& model, const SessionSize& size, const Chip& chip,
                                        uint32_t depth);

} // namespace pumice
