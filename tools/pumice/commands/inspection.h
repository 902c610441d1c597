#pragma once

#include <optional>
#include <string>
#include <vector>

#include "forecast/model_forecast.h"
#include "model/model_facts.h"
#include "task/inspection/inspection.h"

namespace pumice::command {

// The step of a forecast, as it ran here.
struct MeasuredStep {
  double median_seconds = 0;
  double least_seconds = 0;
};

// What `pumice inspect` prints about a model.
struct Inspection {
  std::string model;
  std::string format;
  std::string architecture;
  ModelFacts facts;
  std::vector<std::string> commands; // that can use the model
  std::vector<Hyperparameter> hyperparameters;
  std::vector<ComponentCount> components;
  std::vector<TypeCount> types;
  std::vector<std::string> unread; // tensors of the file that the model does not have
  std::optional<InspectedMemory> memory;
  std::string no_memory;                 // why `memory` is missing
  std::string graph;                     // empty unless asked for
  std::string plan;                      // empty unless asked for
  std::optional<ModelForecast> forecast; // of the plan's steps, for --chip
  std::vector<ModelForecast> curve;      // of steps of several texts, for --batch
  std::optional<MeasuredStep> measured;  // beside the forecast

  uint64_t parameters() const;
};

void print_inspection(const Inspection& inspection, bool json);

} // namespace pumice::command
