#pragma once

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice {

// Whether a part of a message's content shows a picture: {"type": "image", ...}.
inline bool shows_picture(const nlohmann::ordered_json& part) {
  return part.is_object() && part.value("type", nlohmann::ordered_json()) == "image";
}

// Calls a function with the number of the message and the part, for each part of these messages that shows a
// picture.
template <class Messages, class Function>
Status for_each_picture(Messages& messages, const Function& function) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    for (auto& part : *content) {
      if (shows_picture(part)) PUMICE_CHECK(function(i, part));
    }
  }
  return {};
}

} // namespace pumice
