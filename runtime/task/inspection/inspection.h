#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernel/ceilings.h"
#include "model/architecture.h"
#include "step/cache/memory_needs.h"
#include "task/fitting.h"

// What a model consists of, and what it needs on a device.
namespace pumice {

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

std::vector<ComponentCount> count_components(const ModelDefinition& definition);
std::vector<TypeCount> count_types(const ModelFile& file);
// The names of the tensors that are left out, such as those of vision towers and of layers that predict
// further tokens.
std::vector<std::string> unread_tensors(const ModelDefinition& definition, const ModelFile& file);
// Estimates the memory from shapes alone, without weights or a device.
InspectedMemory estimate_memory(const ModelDefinition& definition, const SessionSize& size);
// The memory that loading the model and creating a session would allocate, and what fits. `model` is planned,
// not loaded.
Result<InspectedMemory> planned_memory(const Model& model, const SessionSize& size, const SizeWish& wish);
// The session's plans as text, with the shortest time of each dispatch that the ceilings allow.
Result<std::string> planned_steps(const Model& model, const SessionSize& size, const Ceilings& ceilings);
// The session's plans as text, with the measured time of each dispatch.
Result<std::string> measured_plans(const std::shared_ptr<const Model>& model, const SessionSize& size);

} // namespace pumice
