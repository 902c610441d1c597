#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

// A special token as tokenizer.json lists it under "added_tokens".
inline nlohmann::json special_token(uint64_t id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}
