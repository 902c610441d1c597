#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace pumice {

class AskedFields; // io/fields.h

// How the positions of a decoder turn, in place of what its settings say. An empty field stays.
struct RotaryChange {
  std::optional<float> base;
  std::string scaling;         // none, linear or yarn; empty: stays
  std::optional<float> factor; // so many times as long a context
  std::optional<uint32_t> original_context;
  std::optional<float> beta_fast, beta_slow, attention_factor;

  bool operator==(const RotaryChange&) const = default;
};

// What a model's settings are to say in place of what its file says.
struct SettingChanges {
  // "KEY=TYPE:VALUE", as llama.cpp has it: TYPE is int, float, bool or str. KEY is GGUF's, or in config.json
  // the names of objects and of the setting with dots between them.
  std::vector<std::string> values;
  RotaryChange rotary;

  bool empty() const { return values.empty() && rotary == RotaryChange(); }
};

// A value of that form, without the key: the error says what is expected.
struct ChangedSetting {
  std::string key;
  nlohmann::json value() const; // of `type` and `text`, which fit each other
  std::string type, text;
};
Result<ChangedSetting> parse_change(const std::string& change);

// Makes the changes in the settings of a GGUF file, or of a config.json. `name`: of the file, for errors.
Status change_settings(nlohmann::json& config, bool gguf, const SettingChanges& changes,
                       const std::string& name);

// What to say of changes of settings that a model, which was read since, has not asked for: a sentence for
// each.
std::vector<std::string> unread_changes(const SettingChanges& changes, const AskedFields& asked);

} // namespace pumice
