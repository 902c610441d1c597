#include "forecast/model_forecast.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "step/cache/memory_needs.h"
#include "step/runner_layout.h"

namespace pumice {

namespace {

// What a decoder's runner is made of, for a step of so many tokens after others.
Result<RunnerLayout> lay_out_decoder(const Model& model, const SessionSize& size, uint32_t depth,
                                     uint32_t tokens) {
  if (!model.shape().has_decoder()) {
    return Error{
        Code::unsupported,
        fmt::format("{}: a model of the architecture '{}' has no decoder: there is no step of one token to "
                    "forecast",
                    model.file().path(), model.file().architecture())};
  }
  PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
  PUMICE_TRY(RunnerLayout layout, lay_out_runner(model, runners.front(), nullptr));
  if (uint64_t{depth} + tokens > layout.memory.size.context) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: {} after {} others were asked for, and the context has {} positions: ask for a "
                    "longer context, or fewer tokens",
                    model.file().path(), tokens == 1 ? "a token" : fmt::format("{} tokens", tokens), depth,
                    layout.memory.size.context)};
  }
  return layout;
}

// The variant of each class of shapes that tuning would take (tuning/tuner.cpp) if it measured what is
// forecast, of plans that take one variant after the other: the first that no later one is clearly faster
// than. The plain one, which comes last, only where there is no other.
Result<Choices> fastest_variants(const Graph& graph, PlanContext context, Bucket bucket, const Plan& plan,
                                 const Chip& chip, const StepExtent& extent) {
  constexpr double margin = 0.95;
  std::map<std::string, std::map<std::string, double>> seconds; // by variant and class
  for (const VariantChoice& choice : plan.choices) {
    for (const std::string& variant : choice.variants) seconds[variant];
  }
  for (auto& [variant, by_class] : seconds) {
    context.profile.forced = variant;
    PUMICE_TRY(const Plan forced, make_plan(graph, context, bucket));
    const StepForecast step = forecast_step(forced, chip, extent);
    for (size_t i = 0; i < forced.dispatches.size(); ++i) {
      if (!forced.dispatches[i].choice) continue;
      const VariantChoice& choice = forced.choices[*forced.dispatches[i].choice];
      if (choice.chosen == variant) by_class[choice.shape_class] += step.launches[i].seconds;
    }
  }
  Choices fastest;
  for (const VariantChoice& choice : plan.choices) {
    std::string& best = fastest[choice.shape_class];
    for (const std::string& variant : choice.variants) {
      const bool plain = variant == choice.variants.back();
      const auto time = [&](const std::string& name) {
        const auto found = seconds[name].find(choice.shape_class);
        return found == seconds[name].end() ? std::numeric_limits<double>::infinity() : found->second;
      };
      if (best.empty() || (!plain && time(variant) < margin * time(best))) best = variant;
    }
  }
  return fastest;
}

// A step of several rows, by the smallest plan that has room for them.
Result<ModelForecast> forecast_rows(const Model& model, const SessionSize& size, const Chip& chip,
                                    const StepExtent& extent) {
  const uint32_t depth = extent.positions - 1, tokens = extent.of_texts ? 1 : extent.rows;
  PUMICE_TRY(RunnerLayout layout, lay_out_decoder(model, size, depth, tokens));
  const auto taken =
      std::ranges::find_if(layout.plans, [&](const Plan& plan) { return plan.bucket.tokens >= extent.rows; });
  if (taken == layout.plans.end()) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: a step of {} rows was asked for, and the context allows {}: ask for a longer "
                    "context, or for less",
                    model.file().path(), extent.rows, layout.plans.back().bucket.tokens)};
  }
  ModelForecast forecast{chip, extent, std::move(*taken), {}, {}};
  if (model.context().absent) {
    forecast.unmeasured_seconds = forecast_step(forecast.plan, chip, extent).seconds;
    PlanContext context = layout.memory.plan_context(model.context(), model.weights());
    const Bucket bucket = forecast.plan.bucket;
    PUMICE_TRY(Choices choices, fastest_variants(layout.graph, context, bucket, forecast.plan, chip, extent));
    context.profile.choices = std::make_shared<const Choices>(std::move(choices));
    PUMICE_TRY(forecast.plan, make_plan(layout.graph, context, bucket));
  }
  forecast.step = forecast_step(forecast.plan, chip, extent);
  return forecast;
}

} // namespace

std::string ModelForecast::text() const {
  if (step.rows == 1) return forecast_text(plan, chip, step, extent.positions);
  std::string text = prompt_text(plan, chip, step, extent.positions);
  if (unmeasured_seconds) {
    text += fmt::format("with the kernels of a device that was not tuned: {:.1f} tokens/s\n",
                        step.rows / *unmeasured_seconds);
  }
  return text;
}

std::string curve_text(std::span<const ModelForecast> curve) {
  if (curve.empty()) return {};
  const ModelForecast& first = curve.front();
  std::string text = fmt::format("{}: a forecast of texts that go on together, after {} tokens each\n"
                                 "texts  rows of the plan  ms a step  tokens/s of all  times the first  of "
                                 "what memory allows  takes longest\n",
                                 first.chip.title, first.extent.positions - 1);
  for (const ModelForecast& each : curve) {
    const StepForecast& step = each.step;
    std::map<Bound, double> seconds;
    for (const LaunchForecast& launch : step.launches) seconds[launch.bound] += launch.seconds;
    const auto longest = std::ranges::max_element(
        seconds, {}, [](const std::pair<const Bound, double>& bound) { return bound.second; });
    text += fmt::format("{:>5}  {:>16}  {:>9.3f}  {:>15.1f}  {:>15.2f}  {:>20.0f} %  {}\n", step.rows,
                        each.plan.bucket.tokens, step.seconds * 1e3, step.tokens_per_second(),
                        step.tokens_per_second() / first.step.tokens_per_second(),
                        100 * step.memory_seconds / step.seconds,
                        longest == seconds.end() ? "" : to_string(longest->first));
  }
  return text;
}

Result<ModelForecast> forecast_decoding(const Model& model, const SessionSize& size, const Chip& chip,
                                        uint32_t depth) {
  PUMICE_TRY(RunnerLayout layout, lay_out_decoder(model, size, depth, 1));
  ModelForecast forecast{chip, {1, depth + 1}, std::move(layout.plans.front()), {}, {}};
  forecast.step = forecast_step(forecast.plan, chip, forecast.extent);
  return forecast;
}

Result<ModelForecast> forecast_prompt(const Model& model, SessionSize size, const Chip& chip, uint32_t depth,
                                      uint32_t tokens) {
  size.chunk = tokens;
  return forecast_rows(model, size, chip, {tokens, depth + 1});
}

Result<ModelForecast> forecast_texts(const Model& model, SessionSize size, const Chip& chip, uint32_t depth,
                                     uint32_t texts) {
  if (texts == 1) return forecast_decoding(model, size, chip, depth);
  size.sequences = texts;
  size.chunk = std::max(size.chunk, texts);
  return forecast_rows(model, size, chip, {texts, depth + 1, true});
}

} // namespace pumice
