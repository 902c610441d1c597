#include "text/chat/template_probe.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "text/chat/chat_prompt.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

// Each call has its own.
std::string id_of_call(const std::string& id, std::string_view name, size_t index) {
  if (id == probe::named) return "functions." + std::string(name) + ":" + std::to_string(index);
  std::string own = id;
  own.back() = static_cast<char>(own.back() + static_cast<char>(index));
  return own;
}

ordered_json probed_tool(std::string_view name) {
  const ordered_json text = {{"type", "string"}, {"description", "text"}};
  return {
      {"type", "function"},
      {"function",
       {{"name", name},
        {"description", "tool"},
        {"parameters",
         {{"type", "object"}, {"properties", {{probe::argument, text}, {probe::other_argument, text}}}}}}}};
}

} // namespace

CallStyle CallStyle::of(const TemplateProbe& render) {
  bool refused = false;
  const auto with = [&](const std::string& id) -> CallStyle {
    for (const bool as_text : {false, true}) {
      for (const bool thinks : {false, true}) {
        const CallStyle style{id, as_text, thinks};
        const std::optional<std::string> text =
            render({TemplateProbe::with_calls("", {TemplateProbe::usual_call()}, style)});
        refused = refused || !text;
        if (text && text->find(probe::name, text->find("question")) != std::string::npos) return style;
      }
    }
    return {};
  };
  std::vector<std::string> ids = {probe::letters, probe::called, probe::named};
  for (size_t i = 0; i < ids.size(); ++i) {
    if (CallStyle style = with(ids[i]); !style.id.empty()) return style;
    if (i + 1 != 3 || !refused) continue;
    const std::vector<std::string> more = render.ids_in_text();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return {};
}

std::vector<std::string> TemplateProbe::ids_in_text() const {
  constexpr size_t shortest = 4, longest = 64, most = 8;
  const std::string_view text = template_.text();
  std::vector<size_t> lengths;
  std::vector<std::string> prefixes = {""};
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_' || text[end] == '-'))
      ++end;
    const std::string word(text.substr(at, end - at));
    const bool quoted = at > 0 && (text[at - 1] == '"' || text[at - 1] == '\'');
    if (quoted && (word.ends_with('_') || word.ends_with('-')) && prefixes.size() < most)
      prefixes.push_back(word);
    const bool number = !word.empty() && word.size() <= 2 &&
                        std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
    if (const size_t length = number ? std::stoul(word) : 0;
        length >= shortest && length <= longest && lengths.size() < most)
      lengths.push_back(length);
    at = std::max(end, at + 1);
  }
  if (prefixes.size() > 1) lengths.push_back(std::string_view(probe::called).size());
  std::vector<std::string> ids;
  for (const std::string& prefix : prefixes) {
    for (const size_t length : lengths) {
      if (length < prefix.size() + shortest) continue;
      std::string id = prefix;
      while (id.size() < length) id += probe::letters[(id.size() - prefix.size()) % 8];
      ids.push_back(std::move(id));
    }
  }
  return ids;
}

TemplateProbe::TemplateProbe(const ChatTemplate& chat_template, const std::tm& now)
    : template_(chat_template), now_(now), parts_(reads_parts_alone(chat_template, now)) {}

ordered_json TemplateProbe::said(std::string_view text) {
  return {{"role", "assistant"}, {"content", text}};
}

ordered_json TemplateProbe::with_thought(ordered_json message) {
  for (const char* member : probe::thinking_members) message[member] = probe::thought;
  return message;
}

TemplateProbe::Call TemplateProbe::usual_call() {
  return {probe::name, {{probe::argument, probe::value}}};
}

ordered_json TemplateProbe::with_calls(std::string_view content, const std::vector<Call>& calls,
                                       const CallStyle& style) {
  ordered_json message = said(content);
  message["tool_calls"] = ordered_json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    ordered_json call = {{"type", "function"},
                         {"function", {{"name", calls[i].name}, {"arguments", calls[i].arguments}}}};
    if (style.as_text) call["function"]["arguments"] = calls[i].arguments.dump();
    if (!style.id.empty()) call["id"] = id_of_call(style.id, calls[i].name, i);
    message["tool_calls"].push_back(std::move(call));
  }
  return style.thinks ? with_thought(std::move(message)) : message;
}

std::optional<std::string> TemplateProbe::operator()(const std::vector<ordered_json>& messages,
                                                     bool prompt) const {
  ordered_json all = ordered_json::array({{{"role", "user"}, {"content", "question"}}});
  for (const ordered_json& each : messages) all.push_back(each);
  if (parts_) contents_to_parts(all);
  Result<std::string> text = template_.render(
      {{"messages", all},
       {"tools", ordered_json::array({probed_tool(probe::name), probed_tool(probe::other_name)})},
       {"add_generation_prompt", prompt}},
      now_);
  if (!text.ok()) return std::nullopt;
  return *std::move(text);
}

} // namespace pumice
