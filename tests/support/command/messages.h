#pragma once

#include "base/result.h"

#include <initializer_list>
#include <string>
#include <string_view>

// Whether a result is an error whose message has all these parts; else the first thing that is wrong, which
// doctest shows: CHECK(says(result, {"file.gguf", "'name'"}) == "");
template <class T>
std::string says(const pumice::Result<T>& result, std::initializer_list<std::string_view> parts) {
  if (result.ok()) return "no error";
  for (const std::string_view part : parts)
    if (result.error().text().find(part) == std::string::npos)
      return "no '" + std::string(part) + "' in: " + result.error().text();
  return "";
}
