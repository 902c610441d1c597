#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include <nlohmann/json.hpp>

#include "io/model_folder.h"
#include "text/tokenizer_parts.h"

// Reads the tokenizer of a model's folder. Without a tokenizer.json, the files that are there tell its kind.
namespace pumice::text {

// `at` is a folder or a tokenizer.json.
Result<std::unique_ptr<TokenizerParts>> read_tokenizer(const std::filesystem::path& at);
Result<std::unique_ptr<TokenizerParts>> read_tokenizer(const ModelFolder& folder);

// The settings files beside the vocabulary. A missing file is an empty object.
struct FolderSettings {
  ModelFolder folder;
  nlohmann::json config;         // config.json
  nlohmann::json tokenizer;      // tokenizer_config.json
  nlohmann::json special_tokens; // special_tokens_map.json
  nlohmann::json added_tokens;   // added_tokens.json

  static Result<FolderSettings> read(const ModelFolder& folder);

  bool has_file(const char* name) const { return folder.has(name); }
  Result<std::string> contents(const char* name) const; // of a file
  std::string path(const char* name) const { return folder.path(name); }

  // "bert", "roberta", ...: from the tokenizer's class or else the model's config; empty if neither names
  // one.
  std::string family() const;
  bool flag(const char* name, bool fallback) const; // in tokenizer_config.json
  // The token with a role, such as "cls_token".
  std::string role(const char* name, const std::string& fallback) const;

  // The added tokens in the form of tokenizer.json's "added_tokens": those that the files list, and those of
  // `roles` (a role and its usual token) that the vocabulary has. `find` gives the id of a token.
  using Find = std::function<std::optional<uint32_t>(const std::string&)>;
  nlohmann::json added(std::initializer_list<std::pair<const char*, const char*>> roles,
                       const Find& find) const;
};

Result<Vocabulary> parse_vocabulary(std::string_view vocab_json, const std::string& file);
Result<std::unique_ptr<TokenizerParts>> read_vocabulary_text(const FolderSettings& settings); // vocab.txt
Result<std::unique_ptr<TokenizerParts>> read_vocabulary_and_merges(const FolderSettings& settings);
Result<std::unique_ptr<TokenizerParts>> read_sentence_piece_folder(const FolderSettings& settings,
                                                                   const char* model_file);
Result<std::unique_ptr<TokenizerParts>> read_marian_folder(const FolderSettings& settings);

} // namespace pumice::text
