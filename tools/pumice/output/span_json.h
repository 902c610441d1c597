#pragma once

#include <algorithm>
#include <string_view>

#include "output/json_output.h"
#include "task/spans/text_span.h"

namespace pumice::command {

// Adds where a part of a text is: its score, where it begins and ends, counted in characters, and what it
// says.
inline void add_span(Json& json, std::string_view text, const TextSpan& span) {
  const auto characters = [&](size_t bytes) {
    return std::ranges::count_if(text.substr(0, bytes), [](char c) { return (c & 0xC0) != 0x80; });
  };
  json["score"] = span.score;
  json["start"] = characters(span.begin);
  json["end"] = characters(span.end);
  json["text"] = span.of(text);
}

} // namespace pumice::command
