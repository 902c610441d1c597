// Folders with a plain vocabulary: vocab.txt (BERT), or vocab.json and merges.txt (byte-level BPE). Each is
// converted to the tokenizer.json that has the same meaning.
#include "base/lines.h"
#include "text/formats/huggingface_parts.h"
#include "text/formats/tokenizer_folder.h"

namespace pumice::text {

namespace {

using nlohmann::json;

// Calls visit() with each line of a text, without its end of line.
template <class Visit>
void each_line(std::string_view text, const Visit& visit) {
  for (std::string_view line : split_lines(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    visit(line);
  }
}

json pair_of(const std::string& token, uint32_t id) {
  return json::array({token, id});
}

Result<json> parse_tokens(std::string_view text, const std::string& file) {
  json tokens = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!tokens.is_object())
    return Error{Code::invalid_file, fmt::format("{}: expected an object {{\"token\": id, ...}}", file)};
  return tokens;
}

Status add_tokens(const json& tokens, const std::string& file, Vocabulary::Builder& builder) {
  for (const auto& [token, id] : tokens.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX) {
      return Error{Code::invalid_file,
                   fmt::format("{}: \"{}\": expected an id, found {}", file, token, id.dump())};
    }
    builder.add(token, id.get<uint32_t>());
  }
  return {};
}

Status fill_merges(const FolderSettings& settings, JsonDocument& document) {
  PUMICE_TRY(std::string text, settings.contents("merges.txt"));
  Status status;
  size_t number = 0;
  each_line(text, [&](std::string_view line) {
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version")) || !status.ok()) return;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      status = Error{Code::invalid_file, fmt::format("{}: line {}: expected two tokens, found \"{}\"",
                                                     settings.path("merges.txt"), number, line)};
      return;
    }
    document.merges.add(line.substr(0, space), line.substr(space + 1));
  });
  document.has_merges = true;
  return status;
}

json special_tokens_of(const std::vector<std::pair<std::string, uint32_t>>& tokens) {
  json table = json::object();
  for (const auto& [token, id] : tokens) table[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
  return table;
}

// Whisper's texts begin with the start-of-transcript token and, by default, the token for no timestamps.
json whisper_template(const FolderSettings::Find& find) {
  std::vector<std::pair<std::string, uint32_t>> used;
  json single = json::array();
  auto put = [&](const std::string& token) {
    if (auto id = find(token)) {
      used.emplace_back(token, *id);
      single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0u}}}});
    }
  };
  put("<|startoftranscript|>");
  put("<|notimestamps|>");
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0u}}}});
  put("<|endoftext|>");
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special_tokens_of(used)}};
}

} // namespace

Result<Vocabulary> parse_vocabulary(std::string_view text, const std::string& file) {
  PUMICE_TRY(const json tokens, parse_tokens(text, file));
  Vocabulary::Builder builder;
  PUMICE_CHECK(add_tokens(tokens, file, builder));
  return std::move(builder).build(Vocabulary::Repeated::is_error, file);
}

Result<std::unique_ptr<TokenizerParts>> read_vocabulary_text(const FolderSettings& settings) {
  PUMICE_TRY(std::string text, settings.contents("vocab.txt"));
  JsonDocument document;
  document.vocabulary_shape = JsonDocument::Shape::map;
  std::map<std::string, uint32_t, std::less<>> ids;
  uint32_t next = 0;
  each_line(text, [&](std::string_view line) {
    document.vocabulary.add(line, next);
    ids.insert_or_assign(std::string(line), next++);
  });
  const FolderSettings::Find find = [&](const std::string& token) -> std::optional<uint32_t> {
    const auto found = ids.find(token);
    return found == ids.end() ? std::nullopt : std::optional(found->second);
  };
  const bool mpnet = settings.family() == "mpnet";
  const std::string cls = settings.role("cls_token", mpnet ? "<s>" : "[CLS]");
  const std::string sep = settings.role("sep_token", mpnet ? "</s>" : "[SEP]");
  for (const std::string& token : {cls, sep}) {
    if (!find(token)) {
      return Error{Code::invalid_file,
                   fmt::format("{}: expected the token \"{}\" among its lines, found none",
                               settings.path("vocab.txt"), token)};
    }
  }
  const json strip = settings.tokenizer.value("strip_accents", json());
  document.tree = {{"added_tokens", settings.added({{"pad_token", mpnet ? "<pad>" : "[PAD]"},
                                                    {"unk_token", "[UNK]"},
                                                    {"cls_token", cls.c_str()},
                                                    {"sep_token", sep.c_str()},
                                                    {"mask_token", mpnet ? "<mask>" : "[MASK]"}},
                                                   find)},
                   {"normalizer",
                    {{"type", "BertNormalizer"},
                     {"handle_chinese_chars", settings.flag("tokenize_chinese_chars", true)},
                     {"strip_accents", strip},
                     {"lowercase", settings.flag("do_lower_case", true)}}},
                   {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                   {"post_processor",
                    {{"type", mpnet ? "RobertaProcessing" : "BertProcessing"},
                     {"cls", pair_of(cls, *find(cls))},
                     {"sep", pair_of(sep, *find(sep))}}},
                   {"decoder", {{"type", "WordPiece"}}},
                   {"model", {{"type", "WordPiece"}, {"unk_token", settings.role("unk_token", "[UNK]")}}}};
  return read_document(std::move(document), settings.path("vocab.txt"));
}

Result<std::unique_ptr<TokenizerParts>> read_vocabulary_and_merges(const FolderSettings& settings) {
  PUMICE_TRY(std::string text, settings.contents("vocab.json"));
  PUMICE_TRY(const json tokens, parse_tokens(text, settings.path("vocab.json")));
  JsonDocument document;
  document.vocabulary_shape = JsonDocument::Shape::map;
  PUMICE_CHECK(add_tokens(tokens, settings.path("vocab.json"), document.vocabulary));
  PUMICE_CHECK(fill_merges(settings, document));
  const FolderSettings::Find find = [&](const std::string& token) -> std::optional<uint32_t> {
    for (const json* file : {&tokens, &settings.added_tokens}) {
      const auto found = file->find(token);
      if (found != file->end() && found->is_number_unsigned()) return found->get<uint32_t>();
    }
    return std::nullopt;
  };
  // RoBERTa's and BART's vocabularies have four special tokens, GPT-2's and Whisper's have one.
  const std::string cls = settings.role("cls_token", "<s>"), sep = settings.role("sep_token", "</s>");
  json post;
  if (settings.family() == "whisper") {
    post = whisper_template(find);
  } else if (find(cls) && find(sep)) {
    post = {
        {"type", "RobertaProcessing"}, {"cls", pair_of(cls, *find(cls))}, {"sep", pair_of(sep, *find(sep))}};
  }
  document.tree = {{"added_tokens", settings.added({{"bos_token", "<s>"},
                                                    {"eos_token", find(sep) ? "</s>" : "<|endoftext|>"},
                                                    {"unk_token", find(sep) ? "<unk>" : "<|endoftext|>"},
                                                    {"pad_token", "<pad>"},
                                                    {"mask_token", "<mask>"}},
                                                   find)},
                   {"pre_tokenizer",
                    {{"type", "ByteLevel"}, {"add_prefix_space", settings.flag("add_prefix_space", false)}}},
                   {"post_processor", post},
                   {"decoder", {{"type", "ByteLevel"}}},
                   {"model", {{"type", "BPE"}}}};
  for (json& token : document.tree["added_tokens"]) {
    // The mask includes the space before it, so that "a <mask>" and "a<mask>" give the same ids.
    if (token["content"] == "<mask>" && !token.contains("lstrip")) token["lstrip"] = true;
  }
  return read_document(std::move(document), settings.path("vocab.json"));
}

} // namespace pumice::text
