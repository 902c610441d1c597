#include "text/chat/call_ids.h"

#include <algorithm>

#include <fmt/format.h>

#include "text/chat/template_probe.h"

namespace pumice::text {

namespace {

using nlohmann::ordered_json;

// Empty if there is none.
std::string id_in(const ordered_json& object, const char* member) {
  const auto found = object.is_object() ? object.find(member) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Calls `each` with each call of a message.
template <class Message, class Function>
void for_calls(Message& message, Function each) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (auto& call : *calls) {
    if (call.is_object()) each(call);
  }
}

} // namespace

CallIds::CallIds(std::string wanted, const ordered_json& messages) : wanted_(std::move(wanted)) {
  for (const ordered_json& message : messages)
    for_calls(message, [&](const ordered_json& call) { take(id_in(call, "id")); });
}

std::string CallIds::make(const std::string& tool) {
  if (wanted_.empty()) return {};
  // As long as the one that is wanted, and with its beginning: call_..., and call... where it has none.
  const size_t underline = wanted_.find_last_of("_-");
  const bool begins = underline != std::string::npos;
  constexpr std::string_view usual = "call";
  constexpr size_t digits = 5;
  const std::string begin = begins                                    ? wanted_.substr(0, underline + 1)
                            : wanted_.size() >= usual.size() + digits ? std::string(usual)
                                                                      : "";
  const size_t room = wanted_.size() - begin.size();
  for (size_t number = 1;; ++number) {
    std::string id = wanted_ == probe::named ? fmt::format("functions.{}:{}", tool, number - 1)
                                             : fmt::format("{}{:0{}}", begin, number, room);
    if (std::ranges::find(taken_, id) != taken_.end()) continue;
    take(id);
    return id;
  }
}

void CallIds::complete(ordered_json& messages) {
  if (wanted_.empty()) return;
  std::vector<std::string> open; // ids of calls whose results are to follow
  for (ordered_json& message : messages) {
    if (message["role"] != "tool") open.clear();
    for_calls(message, [&](ordered_json& call) {
      const ordered_json& named = call.contains("function") ? call["function"] : call;
      if (id_in(call, "id").empty()) call["id"] = make(id_in(named, "name"));
      open.push_back(id_in(call, "id"));
    });
    if (message["role"] != "tool" || open.empty()) continue;
    const std::string given = id_in(message, "tool_call_id");
    if (given.empty()) message["tool_call_id"] = open[0];
    const auto answered = given.empty() ? open.begin() : std::ranges::find(open, given);
    if (answered != open.end()) open.erase(answered);
  }
}

} // namespace pumice::text
