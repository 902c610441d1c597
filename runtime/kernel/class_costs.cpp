#include "kernel/class_costs.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

#include "gpu/pipelines.h"

namespace pumice {

namespace {

constexpr std::string_view prefix = "cost ";

} // namespace

ClassCosts ClassCosts::stored(const Pipelines& pipelines) {
  ClassCosts costs;
  for (const auto& [name, value] : pipelines.tuning_results()) {
    if (name.starts_with(prefix)) costs.costs_.emplace(name.substr(prefix.size()), value);
  }
  return costs;
}

std::optional<double> ClassCosts::seconds(std::string_view shape_class, const Dispatch& dispatch) const {
  const std::string* value = find_choice(costs_, shape_class);
  if (!value) return {};
  ClassCost cost;
  std::istringstream text(*value);
  text >> cost.flops >> cost.bytes >> cost.seconds;
  // The file may be damaged. Work without operations, or without bytes, says nothing of launches that have
  // them.
  if (!text || !(cost.flops > 0) || !(cost.bytes > 0) || !(cost.seconds > 0)) return {};
  return cost.seconds * std::max(dispatch.flops / cost.flops, dispatch.bytes / cost.bytes);
}

void store_costs(Pipelines& pipelines, const std::map<std::string, ClassCost>& costs) {
  TuningResults values;
  for (const auto& [name, cost] : costs) {
    values[std::string(prefix) + name] =
        fmt::format("{:.4g} {:.4g} {:.4g}", cost.flops, cost.bytes, cost.seconds);
  }
  pipelines.change_tuning_results(values, {});
}

} // namespace pumice
