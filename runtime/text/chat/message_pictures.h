#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice {

// Whether a part of a message's content is a picture or a sound: {"type": "image", ...}, or "audio".
inline bool is_medium(const nlohmann::ordered_json& part) {
  const nlohmann::ordered_json type =
      part.is_object() ? part.value("type", nlohmann::ordered_json()) : nlohmann::ordered_json();
  return type == "image" || type == "audio";
}

// Calls a function with the number of the message and the part, for each part of these messages that is a
// picture or a sound.
template <class Messages, class Function>
Status for_each_medium(Messages& messages, const Function& function) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    for (auto& part : *content) {
      if (is_medium(part)) PUMICE_CHECK(function(i, part));
    }
  }
  return {};
}

} // namespace pumice
