#pragma once

#include <map>
#include <string>

#include "graph/graph.h"
#include "models/architecture.h"

namespace pumice {

// The weights of a definition, found in a file and checked against their specs, by name.
class WeightFinder {
public:
  // Errors name the file, the tensor and what was expected of it.
  static Result<WeightFinder> find(const ModelFile& file, std::span<const WeightSpec> specs, Graph& graph);

  WeightId operator[](const std::string& name) const { return ids_.at(name); }
  std::optional<WeightId> optional(const std::string& name) const {
    const auto found = ids_.find(name);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

private:
  std::map<std::string, WeightId> ids_;
};

} // namespace pumice
