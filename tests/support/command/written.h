#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/embedding.h"

// A text that a model wrote, as the command's JSON and the events of the C interface tell it.
struct Written {
  std::vector<uint32_t> ids;
  std::string text, end;
  // Of each token, and of the most probable ones at its place.
  std::vector<std::vector<std::pair<uint32_t, float>>> log_probabilities;

  bool operator==(const Written&) const = default;
};

inline Written written_by_command(const nlohmann::json& text) {
  Written written{text["ids"], text.value("text", ""), text["finish_reason"], {}};
  if (written.end.starts_with("stop ")) written.end = "stop"; // a token or a string
  const auto probability = [](const nlohmann::json& each) {
    return std::pair(each["id"].get<uint32_t>(), each["logprob"].get<float>());
  };
  for (const nlohmann::json& each : text.value("logprobs", nlohmann::json::array())) {
    auto& all = written.log_probabilities.emplace_back(1, probability(each));
    for (const nlohmann::json& top : each["top"]) all.push_back(probability(top));
  }
  return written;
}

inline nlohmann::json command_json(const std::vector<std::string>& arguments, const std::string& input = "") {
  const CommandResult result = pumice_command(arguments, input);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}

// Of an answer to a chat, its content is the text.
inline Written written_by_session(pumice_session* session, const pumice_request& request) {
  pumice_error error;
  require_ok(pumice_session_generate(session, &request, &error), error);
  require_ok(pumice_session_run(session, &error), error);
  Written written;
  while (const pumice_event* event = pumice_session_poll(session)) {
    const bool part = event->type == PUMICE_EVENT_PART;
    if (!part || event->part == PUMICE_PART_CONTENT) written.text += event->text;
    if (part) continue;
    if (event->type == PUMICE_EVENT_END) {
      written.end = event->finish_reason == PUMICE_FINISH_STOP     ? "stop"
                    : event->finish_reason == PUMICE_FINISH_LENGTH ? "count"
                                                                   : "context";
      continue;
    }
    written.ids.push_back(event->token);
    if (!event->top_count) continue;
    auto& all = written.log_probabilities.emplace_back(1, std::pair(event->token, event->log_probability));
    for (uint32_t i = 0; i < event->top_count; ++i)
      all.emplace_back(event->top[i].token, event->top[i].log_probability);
  }
  return written;
}
