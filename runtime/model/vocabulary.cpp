#include "model/vocabulary.h"

#include <algorithm>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace pumice {

namespace {

// Where a role's tokens are named: fields of config.json and of GGUF files, and usual spellings.
struct RoleNames {
  std::vector<const char*> fields;
  std::vector<const char*> spellings = {};
};

const RoleNames role_names[] = {
    {{"bos_token_id", "tokenizer.ggml.bos_token_id"}},
    {{"eos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", // of a turn
      "tokenizer.ggml.eom_token_id"}},                                              // of a message
    {{"unk_token_id", "tokenizer.ggml.unknown_token_id"}, {"<unk>", "[UNK]"}},
    {{"pad_token_id", "tokenizer.ggml.padding_token_id"}, {"<pad>", "[PAD]"}},
    {{"sep_token_id", "tokenizer.ggml.seperator_token_id"}, {"[SEP]"}}, // GGUF spells it so
    {{"mask_token_id", "tokenizer.ggml.mask_token_id"}, {"<mask>", "[MASK]"}},
};

constexpr std::string_view with_ids = " (--ids of 'pumice generate', 'embed' and 'classify')";

Result<std::optional<uint32_t>> optional_id(const Fields& fields, const char* name) {
  if (!fields.has(name)) return std::optional<uint32_t>();
  PUMICE_TRY(uint32_t id, fields.u32(name));
  return std::optional(id);
}

Result<std::optional<bool>> optional_flag(const Fields& fields, const char* name) {
  if (!fields.has(name)) return std::optional<bool>();
  PUMICE_TRY(bool flag, fields.boolean(name));
  return std::optional(flag);
}

Result<std::shared_ptr<const Tokenizer>> from_gguf(const ModelFile& file) {
  const Fields fields = file.fields();
  const GgufArray* tokens = file.array("tokenizer.ggml.tokens");
  if (!tokens) {
    return Error{
        Code::not_found,
        fmt::format("{}: the file has no vocabulary (field 'tokenizer.ggml.tokens'), so texts cannot be "
                    "read: give token ids{}",
                    file.path(), with_ids)};
  }
  Tokenizer::GgufVocabulary vocabulary;
  vocabulary.file = file.path();
  vocabulary.tokens = tokens->strings();
  PUMICE_TRY(vocabulary.model, fields.string("tokenizer.ggml.model"));
  PUMICE_TRY(vocabulary.pre, fields.string_or("tokenizer.ggml.pre", "default"));
  if (const GgufArray* scores = file.array("tokenizer.ggml.scores")) vocabulary.scores = scores->floats();
  if (const GgufArray* merges = file.array("tokenizer.ggml.merges")) vocabulary.merges = merges->strings();
  if (const GgufArray* types = file.array("tokenizer.ggml.token_type")) {
    for (int64_t type : types->integers()) vocabulary.types.push_back(static_cast<int32_t>(type));
  }
  PUMICE_TRY(vocabulary.bos, optional_id(fields, "tokenizer.ggml.bos_token_id"));
  PUMICE_TRY(vocabulary.eos, optional_id(fields, "tokenizer.ggml.eos_token_id"));
  PUMICE_TRY(vocabulary.unknown, optional_id(fields, "tokenizer.ggml.unknown_token_id"));
  PUMICE_TRY(vocabulary.separator,
             optional_id(fields, "tokenizer.ggml.seperator_token_id")); // GGUF spells it so
  if (vocabulary.model == "bert" && !vocabulary.bos) {
    PUMICE_TRY(vocabulary.bos, optional_id(fields, "tokenizer.ggml.cls_token_id"));
  }
  PUMICE_TRY(vocabulary.add_bos, optional_flag(fields, "tokenizer.ggml.add_bos_token"));
  PUMICE_TRY(vocabulary.add_eos, optional_flag(fields, "tokenizer.ggml.add_eos_token"));
  PUMICE_TRY(vocabulary.lowercase, optional_flag(fields, "tokenizer.ggml.normalizer.lowercase"));
  PUMICE_TRY(vocabulary.remove_extra_whitespaces,
             fields.boolean_or("tokenizer.ggml.remove_extra_whitespaces", false));
  std::string character_map; // the view must outlive it
  if (const GgufArray* bytes = file.array("tokenizer.ggml.precompiled_charsmap")) {
    for (int64_t byte : bytes->integers()) character_map.push_back(static_cast<char>(byte));
  }
  vocabulary.character_map = character_map;
  PUMICE_TRY(vocabulary.add_space_prefix, fields.boolean_or("tokenizer.ggml.add_space_prefix", true));
  return Tokenizer::from_gguf(vocabulary);
}

// A file of whisper.cpp.
Result<std::shared_ptr<const Tokenizer>> from_ranks(const ModelFile& file) {
  const RankedTokens& tokens = *file.ranked_tokens();
  Tokenizer::RankedVocabulary vocabulary;
  vocabulary.file = file.path();
  vocabulary.words = tokens.words;
  vocabulary.special = tokens.special;
  const auto add = [&](const char* name, std::vector<uint32_t>& around) {
    const auto found = std::ranges::find(tokens.special, name);
    if (found == tokens.special.end()) return;
    around.push_back(
        static_cast<uint32_t>(tokens.words.size() + static_cast<size_t>(found - tokens.special.begin())));
  };
  add("<|startoftranscript|>", vocabulary.before);
  add("<|notimestamps|>", vocabulary.before);
  add("<|endoftext|>", vocabulary.after);
  return Tokenizer::from_ranks(vocabulary);
}

// A folder may hold several models, so the tokens are compared with the file's own.
Status check_same_tokens(const ModelFile& file, const Tokenizer& tokenizer, const std::string& path) {
  constexpr int64_t kNormal = 1;
  const std::vector<std::string_view> tokens = file.array("tokenizer.ggml.tokens")->strings();
  if (tokenizer.vocabulary_size() > tokens.size()) {
    return Error{Code::invalid_file, fmt::format("{}: expected at most the {} tokens of {}, found {}", path,
                                                 tokens.size(), file.path(), tokenizer.vocabulary_size())};
  }
  const GgufArray* types = file.array("tokenizer.ggml.token_type");
  PUMICE_TRY(std::string model, file.fields().string("tokenizer.ggml.model"));
  if (!types || model != "gpt2") return {}; // other kinds spell their tokens in ways of their own
  uint32_t id = 0;
  for (int64_t type : types->integers()) {
    if (id == tokens.size()) break;
    const std::string_view piece = tokenizer.piece(id), own = tokens[id++];
    if (type != kNormal || piece.empty() || piece == own) continue;
    return Error{Code::invalid_file, fmt::format("{}: expected the tokens of {}, found \"{}\" for \"{}\"",
                                                 path, file.path(), piece, own)};
  }
  return {};
}

// For a GGUF file whose own vocabulary cannot be used.
Result<std::shared_ptr<const Tokenizer>> from_json_beside(const ModelFile& file, Error reason) {
  const ModelFolder folder = folder_of(file);
  if (!folder.has("tokenizer.json")) {
    reason.message +=
        "; a tokenizer.json beside the file is used instead, and there is none: put the model's there";
    return reason;
  }
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer,
             Tokenizer::load(folder.on_disk() / "tokenizer.json"));
  PUMICE_CHECK(check_same_tokens(file, *tokenizer, folder.path("tokenizer.json")));
  return tokenizer;
}

// A model that was tuned for chats names the end of a turn here rather than in config.json. A file that
// cannot be read names none.
std::vector<uint32_t> ends_in_generation_config(const ModelFile& file) {
  if (file.format() != ModelFile::Format::hugging_face) return {};
  const ModelFolder folder = folder_of(file);
  const Result<std::optional<nlohmann::json>> json = folder.object("generation_config.json");
  if (!json.ok() || !*json) return {};
  const Fields fields(**json, folder.path("generation_config.json"));
  Result<std::vector<uint32_t>> ids = fields.u32_array_or_empty("eos_token_id");
  return ids.ok() ? *std::move(ids) : std::vector<uint32_t>();
}

} // namespace

ModelFolder folder_of(const ModelFile& file) {
  const ModelFolder& own = file.folder();
  std::error_code ignored;
  if (own.in_gguf() || std::filesystem::is_directory(own.on_disk(), ignored)) return own;
  return own.on_disk().parent_path();
}

Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const ModelFile& file) {
  if (file.format() == ModelFile::Format::gguf) {
    Result<std::shared_ptr<const Tokenizer>> own = from_gguf(file);
    if (own.ok() || own.error().code != Code::unsupported) return own;
    return from_json_beside(file, own.error());
  }
  if (file.ranked_tokens()) return from_ranks(file);
  if (!file.tokenizer_path().empty()) return Tokenizer::load(file.tokenizer_path());
  Result<std::shared_ptr<const Tokenizer>> tokenizer = Tokenizer::load(folder_of(file));
  if (tokenizer.ok() || tokenizer.error().code != Code::not_found) return tokenizer;
  return Error{
      Code::not_found,
      fmt::format(
          "{}: there is no tokenizer.json beside the weights, so texts cannot be read: put the model's "
          "tokenizer there, or give token ids{}",
          file.path(), with_ids)};
}

std::vector<uint32_t> tokens_of(TokenRole role, const ModelFile& file, const Tokenizer* tokenizer) {
  const RoleNames& names = role_names[static_cast<size_t>(role) - 1];
  std::vector<uint32_t> tokens;
  const auto add = [&](uint32_t id) {
    if (std::ranges::find(tokens, id) == tokens.end()) tokens.push_back(id);
  };
  if (role == TokenRole::end) std::ranges::for_each(ends_in_generation_config(file), add);
  for (const Fields& fields : {file.fields(), file.text_fields()}) {
    bool named = false;
    for (const char* name : names.fields) {
      const Result<std::vector<uint32_t>> ids = fields.u32_array_or_empty(name);
      if (!ids.ok()) continue;
      named |= !ids->empty();
      std::ranges::for_each(*ids, add);
    }
    if (named) break;
  }
  if (!tokens.empty() || !tokenizer) return tokens;
  if (role == TokenRole::begin && tokenizer->bos()) add(*tokenizer->bos());
  if (role == TokenRole::end && tokenizer->eos()) add(*tokenizer->eos());
  for (const char* spelling : names.spellings) {
    const std::optional<uint32_t> id = tokenizer->find(spelling);
    if (id && tokenizer->is_special(*id)) add(*id);
  }
  return tokens;
}

} // namespace pumice
