// Which variables of a template switch thinking on and off.
#include <algorithm>
#include <cctype>

#include "text/chat/chat.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

struct Switch {
  std::string_view variable;
  ordered_json off, on; // null: the template's own is meant
};

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Whether a text has this name: not within another one, and not as a member of something else.
bool names(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !(is_name_character(text[at - 1]) || text[at - 1] == '.');
    if (begins && (end == text.size() || !is_name_character(text[end]))) return true;
  }
  return false;
}

} // namespace

ordered_json thinking_variables(std::string_view template_text, bool wanted) {
  const bool knows_none = template_text.find("'none'") != std::string_view::npos ||
                          template_text.find("\"none\"") != std::string_view::npos;
  const Switch switches[] = {
      {"enable_thinking", false, true},                      // Qwen 3, GLM, SmolLM3, EXAONE, Gemma 4
      {"thinking", false, true},                             // Granite, DeepSeek V3.1, Hermes 4
      {"reasoning", false, true},                            // Cohere
      {"reasoning_effort", knows_none ? "none" : "low", {}}, // Mistral; gpt-oss
      {"thinking_budget", 0, {}},                            // Seed-OSS
      {"thinking_mode", "disabled", "enabled"},              // MiniMax
  };
  ordered_json variables = ordered_json::object();
  for (const Switch& each : switches) {
    const ordered_json& value = wanted ? each.on : each.off;
    if (!value.is_null() && names(template_text, each.variable))
      variables[std::string(each.variable)] = value;
  }
  return variables;
}

} // namespace pumice
