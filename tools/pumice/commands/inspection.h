#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "forecast/model_forecast.h"
#include "kernel/ceilings.h"
#include "loading/fitting_size.h"
#include "loading/open_device.h"
#include "model/architecture.h"
#include "model/model_facts.h"
#include "step/cache/memory_needs.h"

namespace pumice::command {

struct ComponentCount {
  std::string component; // "embedding", "attention", "feed-forward", "norms", "head"
  uint64_t parameters = 0;
};

struct TypeCount {
  std::string type; // "F32", "Q8_0"
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

// The device memory of a model and one session.
struct InspectedMemory {
  MemoryNeeds needs;
  std::string kv;
  bool exact = false; // true: what `device` will allocate; false: an estimate with weights of 16 bits
  std::string device; // the device's name and driver
  std::vector<FittingContext> fitting; // with the memory that is free; empty without a device
  SessionSize fit;                     // what --fit chooses

  uint64_t total() const { return needs.weights + needs.session(); }
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

  uint64_t parameters() const;
};

std::vector<ComponentCount> count_components(const ModelDefinition& definition);
std::vector<TypeCount> count_types(const ModelFile& file);
// The names of the tensors that are left out, such as those of vision towers and of layers that predict
// further tokens.
std::vector<std::string> unread_tensors(const ModelDefinition& definition, const ModelFile& file);
// Estimates the memory from shapes alone, without weights or a device.
InspectedMemory estimate_memory(const ModelDefinition& definition, const SessionSize& size);
// The memory that loading the model and creating a session would allocate. `model` is planned, not loaded.
Result<InspectedMemory> planned_memory(const Model& model, const SizeOptions& options);
// The session's plans as text, with the shortest time of each dispatch that the ceilings allow.
Result<std::string> planned_steps(const Model& model, const SessionSize& size, const Ceilings& ceilings);
// The session's plans as text, with the measured time of each dispatch.
Result<std::string> measured_plans(const std::shared_ptr<const Model>& model, const SessionSize& size);

void print_inspection(const Inspection& inspection, bool json);

} // namespace pumice::command
