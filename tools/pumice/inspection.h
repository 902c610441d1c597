#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/ceilings.h"
#include "model/architecture.h"
#include "open_device.h"
#include "step/memory_needs.h"

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

// Device memory of a model and one session.
struct InspectedMemory {
  MemoryNeeds needs;
  std::string kv;
  bool exact = false; // as it will be allocated on `device`; else the weights are counted at 16 bits
  std::string device; // and driver

  uint64_t total() const { return needs.weights + needs.session(); }
};

// What `pumice inspect` tells of a model.
struct Inspection {
  std::string model;
  std::string format;
  std::string architecture;
  std::vector<Hyperparameter> hyperparameters;
  std::vector<ComponentCount> components;
  std::vector<TypeCount> types;
  std::optional<InspectedMemory> memory;
  std::string no_memory; // why it is not there
  std::string graph;     // where they were asked for
  std::string plan;

  uint64_t parameters() const;
};

std::vector<ComponentCount> count_components(const ModelDefinition& definition);
std::vector<TypeCount> count_types(const ModelFile& file);
// Without weights or a device: from shapes alone.
InspectedMemory estimate_memory(const ModelDefinition& definition, const SessionSize& size);
// What loading a model that is planned and making a session would allocate.
Result<InspectedMemory> planned_memory(const Model& model, const SessionSize& size);
// The session's plans as text, held against ceilings.
Result<std::string> planned_steps(const Model& model, const SessionSize& size, const Ceilings& ceilings);
// The plans as text, with what each dispatch took.
Result<std::string> measured_plans(const std::shared_ptr<const Model>& model, const SessionSize& size);

void print_inspection(const Inspection& inspection, bool json);

} // namespace pumice::command
