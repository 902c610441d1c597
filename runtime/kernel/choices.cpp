#include "kernel/choices.h"

#include <algorithm>
#include <utility>

#include "gpu/pipelines.h"

namespace pumice {

namespace {

constexpr const char *choice_prefix = "choice ", *blocklist_prefix = "refused ";

TuningResults results_after(const Pipelines& pipelines, std::string_view prefix) {
  TuningResults found;
  for (const auto& [name, value] : pipelines.tuning_results()) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), value);
  }
  return found;
}

// Set before any constructor of a static object runs.
constinit const FamilyRegistration* last_registered = nullptr;

} // namespace

std::string blocklist_key(std::string_view shape_class, std::string_view variant) {
  return std::string(shape_class.substr(0, shape_class.find(' '))) + " " + std::string(variant);
}

Choices stored_choices(const Pipelines& pipelines) {
  return results_after(pipelines, choice_prefix);
}

Blocklist stored_blocklist(const Pipelines& pipelines) {
  return results_after(pipelines, blocklist_prefix);
}

void store_choices(Pipelines& pipelines, const Choices& choices, const Blocklist& blocklist,
                   const std::set<std::string>& allowed) {
  TuningResults values;
  std::set<std::string> gone;
  for (const auto& [shape_class, variant] : choices) values[choice_prefix + shape_class] = variant;
  for (const auto& [variant, reason] : blocklist) values[blocklist_prefix + variant] = reason;
  for (const std::string& variant : allowed) gone.insert(blocklist_prefix + variant);
  pipelines.change_tuning_results(values, gone);
}

FamilyRegistration::FamilyRegistration(std::string_view family, List list)
    : family_(family), list_(list), next_(std::exchange(last_registered, this)) {}

std::vector<VariantSummary> kernel_variants() {
  std::vector<VariantSummary> all;
  for (const FamilyRegistration* each = last_registered; each; each = each->next_) {
    for (VariantSummary& variant : each->list_()) {
      variant.family = each->family_;
      all.push_back(variant);
    }
  }
  // Which family was registered first is the linker's choice.
  std::ranges::stable_sort(all, {}, &VariantSummary::family);
  return all;
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  for (const VariantSummary& variant : kernel_variants()) {
    if (std::ranges::find(names, variant.name) == names.end()) names.emplace_back(variant.name);
  }
  return names;
}

} // namespace pumice
