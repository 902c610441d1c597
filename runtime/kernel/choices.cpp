#include "kernel/choices.h"

#include <algorithm>

#include "gpu/pipelines.h"
#include "kernel/attention/attention.h"
#include "kernel/matmul/matmul.h"

namespace pumice {

namespace {

constexpr const char *choice_prefix = "choice ", *blocklist_prefix = "refused ";

std::map<std::string, std::string> results_after(const Pipelines& pipelines, std::string_view prefix) {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : pipelines.tuning_results()) {
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), value);
  }
  return found;
}

template <class Args>
void add_names(std::span<const KernelVariant<Args>* const> variants, std::vector<std::string>& names) {
  for (const KernelVariant<Args>* variant : variants) {
    if (std::ranges::find(names, variant->name) == names.end()) names.emplace_back(variant->name);
  }
}

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

void store_choices(Pipelines& pipelines, const Choices& choices, const Blocklist& blocklist) {
  pipelines.replace_tuning_results(choice_prefix, choices);
  pipelines.replace_tuning_results(blocklist_prefix, blocklist);
}

std::vector<std::string> variant_names() {
  std::vector<std::string> names;
  add_names(matmul_variants(), names);
  add_names(attention_variants(), names);
  return names;
}

} // namespace pumice
