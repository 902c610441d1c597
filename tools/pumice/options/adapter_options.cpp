#include "options/adapter_options.h"

#include <filesystem>

#include <fmt/format.h>

#include "base/number_from_chars.h"
#include "base/path.h"
#include "options/option_text.h"

namespace pumice::command {

namespace {

using AdapterUse = NamedAdapters::Use;

// The name of a file may have an = in it, too.
Result<AdapterUse> parse_use(const std::string& text) {
  AdapterUse use{text};
  std::error_code ignored;
  const size_t equals = text.rfind('=');
  if (equals == text.npos || std::filesystem::exists(path_of(text), ignored)) return use;
  use.path = text.substr(0, equals);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = number_from_chars(text.data() + equals + 1, end, use.scale);
  if (error != std::errc() || rest != end || use.path.empty()) {
    return Error{
        Code::invalid_argument,
        fmt::format("--lora {}: expected PATH or PATH=SCALE, where SCALE is a number such as 0.5", text)};
  }
  if (const Status status = check_scale(use.scale); !status.ok())
    return Error{Code::invalid_argument, fmt::format("--lora {}: {}", text, status.error().message)};
  return use;
}

} // namespace

void add_adapter_option(CLI::App& app, std::vector<std::string>& uses) {
  app.add_option(
         "--lora", uses,
         "Add an adapter to the model: a folder of Hugging Face's PEFT, or a GGUF file of llama.cpp. "
         "SCALE says how much of it (default: 1; 0 is none). Can be given more than once, and all are "
         "added")
      ->type_name("PATH[=SCALE]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(more_of("Text"));
}

Result<NamedAdapters> NamedAdapters::load(const std::vector<std::string>& uses, const OpenedModel& model) {
  NamedAdapters adapters;
  for (const std::string& text : uses) {
    PUMICE_TRY(const AdapterUse use, parse_use(text));
    if (adapters.adapters_.contains(use.path)) {
      return Error{Code::invalid_argument, fmt::format("--lora {}: it is given twice", use.path)};
    }
    PUMICE_TRY(adapters.adapters_[use.path], Adapter::load(path_of(use.path), *model.definition, model.file));
    adapters.uses_.push_back(use);
  }
  PUMICE_TRY(adapters.usual_, adapters.choose(uses));
  return adapters;
}

Result<AdapterChoice> NamedAdapters::choose(const std::vector<std::string>& uses) {
  if (const auto known = chosen_.find(uses); known != chosen_.end()) return known->second;
  std::vector<AdapterChoice> all;
  for (const std::string& text : uses) {
    PUMICE_TRY(const AdapterUse use, parse_use(text));
    const auto found = adapters_.find(use.path);
    if (found == adapters_.end()) {
      return Error{Code::not_found,
                   fmt::format("the adapter {} is not one of those of --lora: give it there too, as {}=0 if "
                               "other texts are not to have it",
                               use.path, use.path)};
    }
    if (use.scale != 0) all.push_back({found->second, use.scale});
  }
  return chosen_[uses] = combined(all);
}

AdapterChoice NamedAdapters::choose(const std::vector<float>& scales) {
  if (const auto known = scaled_.find(scales); known != scaled_.end()) return known->second;
  constexpr size_t most_known = 4; // requests may have any scales, and each set of them has its own matrices
  if (scaled_.size() >= most_known) scaled_.clear();
  std::vector<AdapterChoice> all;
  for (size_t i = 0; i < uses_.size(); ++i)
    if (scales[i] != 0) all.push_back({adapters_.at(uses_[i].path), scales[i]});
  return scaled_[scales] = combined(all);
}

std::shared_ptr<const AdapterRoom> NamedAdapters::room(uint32_t places, bool any) const {
  if (adapters_.empty()) return nullptr;
  std::vector<std::shared_ptr<const Adapter>> all;
  for (const auto& [path, adapter] : adapters_) all.push_back(adapter);
  if (usual_.adapter) all.push_back(usual_.adapter);
  if (any) {
    std::vector<AdapterChoice> each;
    for (const auto& [path, adapter] : adapters_) each.push_back({adapter, 1});
    all.push_back(combined(each).adapter);
  }
  return room_for(all, places);
}

} // namespace pumice::command
