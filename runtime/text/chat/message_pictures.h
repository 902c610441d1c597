#pragma once

#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace pumice {

// Whether a part of a message's content is a picture or a sound: {"type": "image", ...}, or "audio".
inline bool is_medium(const nlohmann::ordered_json& part) {
  const nlohmann::ordered_json type =
      part.is_object() ? part.value("type", nlohmann::ordered_json()) : nlohmann::ordered_json();
  return type == "image" || type == "audio";
}

// Where a picture is that a part has in itself.
struct PictureUrl {
  const char* member; // of the part: ".image_url.url"
  nlohmann::ordered_json url;
};

// Of {"type": "image_url", "image_url": {"url": URL}}, or with the URL in place of the object, as
// "input_image" has it.
inline std::optional<PictureUrl> picture_url_in(const nlohmann::ordered_json& part) {
  const nlohmann::ordered_json none;
  const nlohmann::ordered_json type = part.is_object() ? part.value("type", none) : none;
  if (type != "image_url" && type != "input_image") return {};
  nlohmann::ordered_json url = part.value("image_url", none);
  if (url.is_object()) return PictureUrl{".image_url.url", url.value("url", none)};
  return PictureUrl{".image_url", std::move(url)};
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
