#include "text/chat/call_ids.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice::text {

namespace {

using nlohmann::ordered_json;
using Ids = AnswerMarks::Ids;

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

CallIds::CallIds(Ids wanted, const ordered_json& messages) : wanted_(wanted) {
  for (const ordered_json& message : messages)
    for_calls(message, [&](const ordered_json& call) { take(id_in(call, "id")); });
}

std::string CallIds::make(const std::string& tool) {
  if (wanted_ == Ids::none) return {};
  for (size_t number = 1;; ++number) {
    std::string id = wanted_ == Ids::name_and_number ? fmt::format("functions.{}:{}", tool, number - 1)
                     : wanted_ == Ids::letters       ? fmt::format("call{:05}", number)
                                                     : fmt::format("call_{:024}", number);
    if (std::ranges::find(taken_, id) != taken_.end()) continue;
    take(id);
    return id;
  }
}

void CallIds::complete(ordered_json& messages) {
  if (wanted_ == Ids::none) return;
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
