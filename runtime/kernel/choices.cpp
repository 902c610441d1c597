#include "kernel/choices.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "gpu/pipelines.h"

namespace pumice {

namespace {

constexpr const char *choice_prefix = "choice ", *blocklist_prefix = "refused ",
                     *dangerous_prefix = "dangerous ";

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

ClassName divide_class(std::string_view name) {
  ClassName divided;
  const size_t first = name.find(' '), second = first == name.npos ? first : name.find(' ', first + 1);
  if (second == name.npos) return divided;
  divided.before = name.substr(0, second + 1);
  const std::string_view rest = name.substr(second + 1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), divided.rows);
  if (error != std::errc()) divided.rows = 0;
  divided.after = rest.substr(static_cast<size_t>(end - rest.data()));
  return divided;
}

std::string blocklist_key(std::string_view shape_class, std::string_view variant) {
  return std::string(shape_class.substr(0, shape_class.find(' '))) + " " + std::string(variant);
}

uint32_t rows_class(uint32_t rows) {
  for (uint32_t most : {1u, 4u, few_rows, 16u, 32u, 64u, 128u, 256u}) {
    if (rows <= most) return most;
  }
  return 512;
}

const std::string* find_choice(const Choices& choices, std::string_view shape_class) {
  if (const auto exact = choices.find(std::string(shape_class)); exact != choices.end())
    return &exact->second;
  const ClassName wanted = divide_class(shape_class);
  if (wanted.rows <= few_rows) return nullptr;
  const std::string* nearest = nullptr;
  double least = 0; // how many times more or fewer rows the nearest one has
  for (auto at = choices.lower_bound(std::string(wanted.before)); at != choices.end(); ++at) {
    if (!at->first.starts_with(wanted.before)) break;
    const ClassName known = divide_class(at->first);
    if (known.rows <= few_rows || known.after != wanted.after) continue;
    const double times = known.rows > wanted.rows ? double{1} * known.rows / wanted.rows
                                                  : double{1} * wanted.rows / known.rows;
    if (nearest && times >= least) continue;
    nearest = &at->second;
    least = times;
  }
  return nearest;
}

Choices stored_choices(const Pipelines& pipelines) {
  return results_after(pipelines, choice_prefix);
}

Blocklist stored_blocklist(const Pipelines& pipelines) {
  Blocklist blocklist;
  for (auto& [key, reason] : results_after(pipelines, blocklist_prefix)) blocklist[key] = {reason, false};
  for (auto& [key, reason] : results_after(pipelines, dangerous_prefix)) blocklist[key] = {reason, true};
  return blocklist;
}

std::string dangerous_result(std::string_view key) {
  return dangerous_prefix + std::string(key);
}

std::vector<std::string> newly_blocked(const Pipelines& pipelines) {
  std::vector<std::string> texts;
  const Blocklist all = stored_blocklist(pipelines);
  for (const std::string& name : pipelines.noted()) {
    for (const auto& [key, blocked] : all) {
      if (name == dangerous_result(key)) texts.push_back(blocked_text(key, blocked));
    }
  }
  return texts;
}

std::string blocked_text(std::string_view key, const Blocked& blocked) {
  return fmt::format("the kernel variant '{}' is not used: {}", key, blocked.reason);
}

void store_choices(Pipelines& pipelines, const Choices& choices, const Blocklist& blocklist,
                   const std::set<std::string>& allowed) {
  TuningResults values;
  std::set<std::string> gone;
  for (const auto& [shape_class, variant] : choices) values[choice_prefix + shape_class] = variant;
  for (const auto& [key, blocked] : blocklist) {
    values[(blocked.dangerous ? dangerous_prefix : blocklist_prefix) + key] = blocked.reason;
  }
  for (const std::string& key : allowed) gone.insert({blocklist_prefix + key, dangerous_prefix + key});
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
