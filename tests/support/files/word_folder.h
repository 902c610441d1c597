#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/files/fixtures.h"
#include "support/files/special_token.h"
#include "support/files/temporary_folder.h"

// The word that token `id` of a word folder stands for.
inline std::string word(uint32_t id) {
  static const std::vector<std::string> special = {"<unk>", "<s>", "</s>"};
  return id < special.size() ? special[id] : "w" + std::to_string(id);
}

// A fixture's model in a folder that is there already, with a tokenizer of 320 tokens that gives each id a
// word of its own, so that any ids can be written as a text.
inline void write_word_folder(const TemporaryFolder& folder, const std::string& model) {
  const std::filesystem::path from = fixtures().model(model);
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    if (std::filesystem::exists(from / name)) std::filesystem::copy_file(from / name, folder.path() / name);
  }
  nlohmann::json tokenizer = word_tokenizer();
  for (uint32_t id = 0; id < 320; ++id) tokenizer["model"]["vocab"][word(id)] = id;
  for (uint32_t id = 0; id < 3; ++id) {
    tokenizer["added_tokens"].push_back(special_token(id, word(id)));
  }
  folder.write("tokenizer.json", tokenizer.dump());
}

// Words of these ids, with spaces between them.
template <class Ids>
std::string words(const Ids& ids) {
  std::string text;
  for (const auto id : ids) text += (text.empty() ? "" : " ") + word(static_cast<uint32_t>(id));
  return text;
}

// Two of the folder's words become "yes" and "no", which a reranker that is a decoder answers.
inline void add_answer_words(const TemporaryFolder& folder) {
  nlohmann::json tokenizer = nlohmann::json::parse(std::ifstream(folder.path() / "tokenizer.json"));
  nlohmann::json& vocabulary = tokenizer["model"]["vocab"];
  vocabulary.erase("w7");
  vocabulary.erase("w8");
  vocabulary["yes"] = 7;
  vocabulary["no"] = 8;
  folder.write("tokenizer.json", tokenizer.dump());
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}
