#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

// A special token as tokenizer.json lists it under "added_tokens".
inline nlohmann::json special_token(uint64_t id, const std::string& text) {
  return {{"id", id},        {"content", text},     {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

// A tokenizer.json whose tokens are whole words between spaces, and that has none yet.
inline nlohmann::json word_tokenizer() {
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "<unk>"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100}}}};
}
