#pragma once

#include <optional>
#include <span>
#include <string>

#include "forecast/step_forecast.h"
#include "model/model.h"

namespace pumice {

// A step of a model on a chip: of one token, of a prompt, or of a token of each of several texts.
struct ModelForecast {
  Chip chip;
  StepExtent extent;
  Plan plan;
  StepForecast step;

  // Of several rows on a chip that is not here: with the kernels that are taken where nothing was measured.
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
// The same of a step of so many texts that go on together, a token each, after `depth` others of their own.
Result<ModelForecast> forecast_texts(const Model& model, SessionSize size, const Chip& chip, uint32_t depth,
                                     uint32_t texts);

// A line for each: how fast so many texts are together, beside the first.
std::string curve_text(std::span<const ModelForecast> curve);

} // namespace pumice
