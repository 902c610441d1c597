#include "text/formats/tokenizer_folder.h"

#include <set>

#include <fmt/format.h>

#include "base/ascii.h"
#include "io/bytes.h"
#include "io/mapped_file.h"
#include "text/formats/huggingface_parts.h"

namespace pumice::text {

namespace {

using nlohmann::json;

constexpr uint64_t kMaxFile = uint64_t{1} << 30;

Status check_size(const MappedFile& file) {
  const size_t size = file.bytes().size();
  if (size <= kMaxFile) return {};
  return Error{Code::invalid_file,
               fmt::format("{}: expected at most {} bytes, found {}", file.path(), kMaxFile, size)};
}

Result<json> read_object(const ModelFolder& folder, const char* name) {
  if (!folder.has(name)) return json::object();
  PUMICE_TRY(const MappedFile file, folder.open(name));
  PUMICE_CHECK(check_size(file));
  json value = json::parse(as_text(file.bytes()), nullptr, /*allow_exceptions=*/false);
  if (value.is_object()) return value;
  return Error{Code::invalid_file,
               fmt::format("{}: expected a JSON object, found another value or damaged JSON", file.path())};
}

Result<std::unique_ptr<TokenizerParts>> read_json_file(const MappedFile& file) {
  PUMICE_CHECK(check_size(file));
  return read_huggingface(as_text(file.bytes()), file.path());
}

// A token is written as a string, or as {"content": ..., "lstrip": ...}.
std::string content_of(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object()) return {};
  const auto found = token.find("content");
  return found != token.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A list of added tokens. If a token is added twice, the first entry is used.
class AddedList {
public:
  void add(const json& token, uint32_t id, bool special) {
    const std::string content = content_of(token);
    if (content.empty() || !seen_.insert(content).second) return;
    json made = token.is_object() ? token : json::object();
    made["content"] = content;
    made["id"] = id;
    if (!made.contains("special")) made["special"] = special;
    if (!made.contains("normalized")) made["normalized"] = false;
    list_.push_back(std::move(made));
  }
  json take() { return std::move(list_); }

private:
  json list_ = json::array();
  std::set<std::string> seen_;
};

std::optional<uint32_t> id_of(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) return std::nullopt;
  return value.get<uint32_t>();
}

std::optional<uint32_t> id_of(const std::string& digits) {
  if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return static_cast<uint32_t>(std::stoul(digits));
}

} // namespace

Result<std::string> FolderSettings::contents(const char* name) const {
  PUMICE_TRY(const MappedFile file, folder.open(name));
  PUMICE_CHECK(check_size(file));
  return std::string(as_text(file.bytes()));
}

Result<FolderSettings> FolderSettings::read(const ModelFolder& folder) {
  FolderSettings settings{folder, {}, {}, {}, {}};
  PUMICE_TRY(settings.config, read_object(folder, "config.json"));
  PUMICE_TRY(settings.tokenizer, read_object(folder, "tokenizer_config.json"));
  PUMICE_TRY(settings.special_tokens, read_object(folder, "special_tokens_map.json"));
  PUMICE_TRY(settings.added_tokens, read_object(folder, "added_tokens.json"));
  return settings;
}

std::string FolderSettings::family() const {
  std::string name = content_of(tokenizer.value("tokenizer_class", json()));
  for (std::string_view end : {"Fast", "Tokenizer"}) {
    if (name.ends_with(end)) name = name.substr(0, name.size() - end.size());
  }
  // A general class does not name a family.
  if (name.empty() || name == "PreTrained") {
    const std::string type = content_of(config.value("model_type", json()));
    if (type == "m2m_100")
      return has_file("vocab.json") ? "m2m100" : "nllb"; // NLLB's models have the same type
    return type;
  }
  return lower_case(name);
}

bool FolderSettings::flag(const char* name, bool fallback) const {
  const auto found = tokenizer.find(name);
  return found != tokenizer.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

std::string FolderSettings::role(const char* name, const std::string& fallback) const {
  for (const json* file : {&special_tokens, &tokenizer}) {
    const std::string token = content_of(file->value(name, json()));
    if (!token.empty()) return token;
  }
  return fallback;
}

json FolderSettings::added(std::initializer_list<std::pair<const char*, const char*>> roles,
                           const Find& find) const {
  AddedList list;
  json decoder = tokenizer.value("added_tokens_decoder", json());
  if (!decoder.is_object()) decoder = json::object();
  for (const auto& [digits, token] : decoder.items()) {
    if (auto id = id_of(digits)) list.add(token, *id, false);
  }
  std::set<std::string> special;
  json additional = special_tokens.value("additional_special_tokens", json());
  if (!additional.is_array()) additional = json::array();
  for (const json& token : additional) {
    special.insert(content_of(token));
    if (auto id = find(content_of(token))) list.add(token, *id, true);
  }
  for (const auto& [role_name, default_token] : roles) {
    const std::string token = role(role_name, default_token);
    special.insert(token);
    const json given = special_tokens.value(role_name, json());
    if (auto id = find(token)) list.add(given.is_object() ? given : json(token), *id, true);
  }
  for (const auto& [content, value] : added_tokens.items()) {
    if (auto id = id_of(value)) list.add(content, *id, special.contains(content));
  }
  return list.take();
}

Result<std::unique_ptr<TokenizerParts>> read_tokenizer(const std::filesystem::path& at) {
  std::error_code ignored;
  if (std::filesystem::is_directory(at, ignored)) return read_tokenizer(ModelFolder(at));
  PUMICE_TRY(const MappedFile file, MappedFile::open(at));
  return read_json_file(file);
}

Result<std::unique_ptr<TokenizerParts>> read_tokenizer(const ModelFolder& folder) {
  PUMICE_TRY(const FolderSettings settings, FolderSettings::read(folder));
  if (settings.has_file("tokenizer.json")) {
    PUMICE_TRY(const MappedFile file, folder.open("tokenizer.json"));
    return read_json_file(file);
  }
  if (settings.has_file("source.spm")) return read_marian_folder(settings);
  for (const char* name : {"spiece.model", "sentencepiece.bpe.model", "spm.model"})
    if (settings.has_file(name)) return read_sentence_piece_folder(settings, name);
  if (settings.has_file("merges.txt")) return read_vocabulary_and_merges(settings);
  if (settings.has_file("vocab.txt")) return read_vocabulary_text(settings);
  return Error{Code::not_found,
               fmt::format("{}: expected tokenizer.json, source.spm, spiece.model, sentencepiece.bpe.model, "
                           "spm.model, vocab.json with merges.txt, or vocab.txt, found none of them",
                           folder.path())};
}

} // namespace pumice::text
