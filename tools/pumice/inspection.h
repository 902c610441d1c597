#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernel/ceilings.h"
#include "models/architecture.h"
#include "open_device.h"

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
struct MemoryNeeds {
  uint32_t context = 0;
  std::string kv;
  bool exact = false; // as it will be allocated on `device`; else the weights are counted at 16 bits
  std::string device; // and driver
  uint64_t weights = 0;
  uint64_t cache = 0;
  uint64_t scratch = 0;
  uint64_t state = 0; // step block and sampling

  uint64_t total() const { return weights + cache + scratch + state; }
};

// What `pumice inspect` tells of a model.
struct Inspection {
  std::string model;
  std::string format;
  std::string architecture;
  std::vector<Hyperparameter> hyperparameters;
  std::vector<ComponentCount> components;
  std::vector<TypeCount> types;
  std::optional<MemoryNeeds> memory;
  std::string no_memory; // why it is not there
  std::string graph;     // where they were asked for
  std::string plan;

  uint64_t parameters() const;
};

std::vector<ComponentCount> count_components(const Definition& definition);
std::vector<TypeCount> count_types(const ModelFile& file);
// Without weights or a device: from shapes alone.
MemoryNeeds estimate_memory(const Definition& definition, const SessionSize& size);
// What loading the model and making a session would allocate, found by planning them; where there are
// ceilings to hold them against, also the plans as text.
Status plan_on_device(const Definition& definition, const ModelFile& file, const OpenedDevice& device,
                      const SessionSize& size, const LoadOptions& load,
                      const std::optional<Ceilings>& ceilings, MemoryNeeds& needs, std::string& plans);
// The plans as text, with what each dispatch took.
Result<std::string> measured_plans(const std::shared_ptr<const Model>& model, const SessionSize& size);

void print_inspection(const Inspection& inspection, bool json);

} // namespace pumice::command
