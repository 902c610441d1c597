#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>

#include <nlohmann/json.hpp>

#include "text/tokenizer_parts.h"

// A model's folder without tokenizer.json: what there is instead tells the kind of tokenizer.
namespace pumice::text {

// `at` is a folder, or a tokenizer.json.
Result<std::unique_ptr<TokenizerParts>> read_tokenizer(const std::filesystem::path& at);

Result<std::string> read_whole_file(const std::filesystem::path& path);

// The small files beside the vocabulary. An absent one is an empty object.
struct FolderSettings {
  std::filesystem::path folder;
  nlohmann::json config;         // config.json
  nlohmann::json tokenizer;      // tokenizer_config.json
  nlohmann::json special_tokens; // special_tokens_map.json
  nlohmann::json added_tokens;   // added_tokens.json

  static Result<FolderSettings> read(const std::filesystem::path& folder);

  bool has_file(const char* name) const;
  std::string path(const char* name) const { return (folder / name).string(); }

  // "bert", "roberta", ...: as the tokenizer's class says, or the model's config; empty if neither does.
  std::string family() const;
  bool flag(const char* name, bool fallback) const; // of tokenizer_config.json
  // The token with a role ("cls_token").
  std::string role(const char* name, const std::string& fallback) const;

  // All that is looked for in the text as it is, in the form that tokenizer.json's "added_tokens" have: those
  // the files list, and of `roles` (a role and the customary token for it) those the vocabulary has. `find`
  // gives the id of a token, as std::optional<uint32_t>.
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
