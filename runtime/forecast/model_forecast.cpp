#include "forecast/model_forecast.h"

#include <fmt/format.h>

#include "step/cache/memory_needs.h"
#include "step/runner_layout.h"

namespace pumice {

Result<ModelForecast> forecast_decoding(const Model& model, const SessionSize& size, const Chip& chip,
                                        uint32_t depth) {
  if (!model.shape().has_decoder()) {
    return Error{
        Code::unsupported,
        fmt::format("{}: a model of the architecture '{}' has no decoder: there is no step of one token to "
                    "forecast",
                    model.file().path(), model.file().architecture())};
  }
  PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
  PUMICE_TRY(RunnerLayout layout, lay_out_runner(model, runners.front(), nullptr));
  if (depth >= layout.memory.size.context) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: a token after {} others was asked for, and the context has {} positions: ask for a "
                    "longer context, or fewer tokens before it",
                    model.file().path(), depth, layout.memory.size.context)};
  }
  ModelForecast forecast{chip, depth + 1, std::move(layout.plans.front()), {}};
  forecast.step = forecast_step(forecast.plan, chip, forecast.positions);
  return forecast;
}

} // namespace pumice
