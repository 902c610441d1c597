#include "io/setting_changes.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/number_from_chars.h"
#include "io/bytes.h"
#include "io/fields.h"
#include "io/nearest_names.h"

namespace pumice {

namespace {

using nlohmann::json;

constexpr size_t longest_setting = 127; // as in llama.cpp

template <class T>
std::optional<T> number_of(const std::string& text) {
  T number{};
  const char *begin = text.data(), *end = begin + text.size();
  const auto [rest, error] = number_from_chars(begin, end, number);
  if (error != std::errc() || rest != end || begin == end) return std::nullopt;
  return number;
}

bool fits(const std::string& type, const std::string& text) {
  if (type == "int") return number_of<int64_t>(text).has_value();
  if (type == "float") {
    const std::optional<double> number = number_of<double>(text);
    return number && std::isfinite(*number);
  }
  if (type == "bool") return text == "true" || text == "false";
  return type == "str" && text.size() <= longest_setting;
}

// The place of a setting: of config.json, the object that it is in is made if there is none.
Result<json*> place_of(json& config, bool gguf, const std::string& key, const std::string& name) {
  if (gguf) return &config[key];
  json* at = &config;
  for (size_t begin = 0;;) {
    const size_t dot = key.find('.', begin);
    if (!at->is_object() && !at->is_null()) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: there is no setting '{}': what it would be in is no object", name, key)};
    }
    at = &(*at)[key.substr(begin, dot - begin)];
    if (dot == std::string::npos) return at;
    begin = dot + 1;
  }
}

void change_gguf_rotary(json& config, const RotaryChange& change, const std::string& prefix) {
  const auto set = [&](const char* key, const auto& value) {
    if (value) config[prefix + key] = *value;
  };
  set("rope.freq_base", change.base);
  if (!change.scaling.empty()) config[prefix + "rope.scaling.type"] = change.scaling;
  if (change.factor && change.scaling.empty()) {
    json& type = config[prefix + "rope.scaling.type"];
    if (!type.is_string() || type == "none") type = "linear"; // as in llama.cpp
  }
  set("rope.scaling.factor", change.factor);
  set("rope.scaling.original_context_length", change.original_context);
  set("rope.scaling.yarn_beta_fast", change.beta_fast);
  set("rope.scaling.yarn_beta_slow", change.beta_slow);
  set("rope.scaling.yarn_attn_factor", change.attention_factor);
}

void change_json_rotary(json& settings, const RotaryChange& change) {
  const char* name = settings.contains("rope_parameters") ? "rope_parameters" : "rope_scaling";
  json scaling = settings.contains(name) && settings[name].is_object() ? settings[name] : json::object();
  const auto set = [&](const char* key, const auto& value) {
    if (value) scaling[key] = *value;
  };
  if (change.base) settings["rope_theta"] = *change.base;
  if (scaling.contains("rope_theta")) set("rope_theta", change.base);
  std::string type = change.scaling == "none" ? "default" : change.scaling;
  const std::string before = scaling.value("rope_type", scaling.value("type", "default"));
  if (type.empty() && change.factor && before == "default") type = "linear";
  if (!type.empty()) scaling["rope_type"] = type;
  set("factor", change.factor);
  set("original_max_position_embeddings", change.original_context);
  set("beta_fast", change.beta_fast);
  set("beta_slow", change.beta_slow);
  set("attention_factor", change.attention_factor);
  if (!scaling.empty()) settings[name] = scaling;
}

// A context that is so many times as long has so many positions. Yarn counts from the one before.
void lengthen(json& context, const RotaryChange& change, const std::function<void(uint32_t)>& set_original) {
  if (!context.is_number_unsigned() || !change.factor || *change.factor <= 1) return;
  const auto before = context.get<uint64_t>();
  const double base = change.original_context ? *change.original_context : static_cast<double>(before);
  if (change.scaling == "yarn" && !change.original_context) set_original(static_cast<uint32_t>(before));
  const double longer = std::min(base * double{*change.factor}, double{1u << 30});
  context = std::max(before, static_cast<uint64_t>(longer));
}

} // namespace

Result<ChangedSetting> parse_change(const std::string& change) {
  const size_t equals = change.find('='), colon = change.find(':', equals == std::string::npos ? 0 : equals);
  ChangedSetting setting;
  if (equals != std::string::npos && colon != std::string::npos) {
    setting.key = change.substr(0, equals);
    setting.type = change.substr(equals + 1, colon - equals - 1);
    setting.text = change.substr(colon + 1);
  }
  if (!setting.key.empty() && fits(setting.type, setting.text)) return setting;
  return Error{Code::invalid_argument,
               fmt::format("'{}': expected KEY=TYPE:VALUE, such as llama.context_length=int:4096, with int, "
                           "float, bool (true or false) or str and a value of that type",
                           printable(change))};
}

json ChangedSetting::value() const {
  if (type == "bool") return text == "true";
  if (type == "float") return number_of<double>(text).value_or(0);
  if (type == "str") return text;
  const int64_t number = number_of<int64_t>(text).value_or(0);
  return number < 0 ? json(number) : json(static_cast<uint64_t>(number)); // as they are read from files
}

Status change_settings(json& config, bool gguf, const SettingChanges& changes, const std::string& name) {
  const RotaryChange& rotary = changes.rotary;
  if (!(rotary == RotaryChange()) && gguf) {
    const std::string prefix = config.value("general.architecture", "") + ".";
    change_gguf_rotary(config, rotary, prefix);
    lengthen(config[prefix + "context_length"], rotary,
             [&](uint32_t before) { config[prefix + "rope.scaling.original_context_length"] = before; });
  } else if (!(rotary == RotaryChange())) {
    json& settings =
        config.contains("text_config") && config["text_config"].is_object() ? config["text_config"] : config;
    change_json_rotary(settings, rotary);
    if (settings.contains("max_position_embeddings")) {
      lengthen(settings["max_position_embeddings"], rotary, [&](uint32_t before) {
        const char* scaling = settings.contains("rope_parameters") ? "rope_parameters" : "rope_scaling";
        settings[scaling]["original_max_position_embeddings"] = before;
      });
    }
  }
  for (const std::string& each : changes.values) {
    PUMICE_TRY(const ChangedSetting setting, parse_change(each));
    PUMICE_TRY(json* const place, place_of(config, gguf, setting.key, name));
    *place = setting.value();
  }
  return {};
}

std::vector<std::string> unread_changes(const SettingChanges& changes, const AskedFields& asked) {
  const std::set<std::string> names = asked.names();
  const std::vector<std::string_view> all(names.begin(), names.end());
  std::vector<std::string> sentences;
  for (const std::string& each : changes.values) {
    const Result<ChangedSetting> setting = parse_change(each);
    if (!setting.ok() || asked.has(setting->key)) continue;
    const std::vector<std::string_view> nearest = nearest_names(setting->key, all);
    sentences.push_back(fmt::format(
        "the setting {} has no effect: nothing of this model is read from it{}", in_quotes(setting->key),
        nearest.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(nearest, " or "))));
  }
  const bool turns = std::ranges::any_of(
      names, [](const std::string& name) { return name.find("rope") != std::string::npos; });
  if (!(changes.rotary == RotaryChange()) && !turns)
    sentences.push_back("the changes of rotary positions have no effect: this model has other positions");
  return sentences;
}

} // namespace pumice
