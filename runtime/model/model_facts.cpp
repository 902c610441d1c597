#include "model/model_facts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/lines.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/no_weights.h"
#include "model/vocabulary.h"
#include "text/chat/chat_template.h"

namespace pumice {

namespace {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// A JSON file beside a model's weights; an empty object if there is none that can be read.
nlohmann::json read_beside(const ModelFile& file, const char* name) {
  Result<std::optional<nlohmann::json>> object = folder_of(file).object(name);
  return object.ok() && *object ? **std::move(object) : nlohmann::json::object();
}

// The types of the tensors, those that take the most room first.
std::string quantisation(const ModelFile& file) {
  std::map<std::string, uint64_t> bytes;
  uint64_t all = 0, values = 0;
  for (const TensorView& tensor : file.tensors()) {
    bytes[std::string(info(tensor.type).name)] += tensor.data.size() + tensor.exponents.size();
    all += tensor.data.size() + tensor.exponents.size();
    values += std::accumulate(tensor.shape.begin(), tensor.shape.end(), uint64_t{1}, std::multiplies<>());
  }
  if (values == 0) return "";
  std::vector<std::string> names;
  for (const auto& [name, size] : bytes) names.push_back(name);
  std::ranges::stable_sort(names, std::greater<>(), [&](const std::string& name) { return bytes[name]; });
  const std::string others =
      names.size() > 1 ? fmt::format(" with {}", fmt::join(names.begin() + 1, names.end(), ", ")) : "";
  return fmt::format("{}{}, {:.2f} bits per weight", names.front(), others,
                     8 * static_cast<double>(all) / static_cast<double>(values));
}

std::string tokenizer_kind(const ModelFile& file) {
  static const std::map<std::string, std::string> gguf_kinds = {{"llama", "SentencePiece BPE"},
                                                                {"gpt2", "byte-level BPE"},
                                                                {"bert", "WordPiece"},
                                                                {"t5", "SentencePiece Unigram"}};
  if (file.format() == ModelFile::Format::gguf) {
    const Result<std::string> model = file.fields().string_or("tokenizer.ggml.model", "");
    const auto known = model.ok() ? gguf_kinds.find(*model) : gguf_kinds.end();
    return known == gguf_kinds.end() ? "unknown" : known->second;
  }
  if (file.ranked_tokens()) return "byte-level BPE";
  const nlohmann::json tokenizer = read_beside(file, "tokenizer.json");
  const nlohmann::json model = tokenizer.value("model", nlohmann::json::object());
  if (model.is_object() && model.contains("vocab")) {
    const nlohmann::json type = model.value("type", nlohmann::json("BPE")); // older files do not name it
    const std::string name = type.is_string() ? type.get<std::string>() : "unknown";
    const bool bytes = tokenizer.dump().find("\"ByteLevel\"") != std::string::npos;
    return bytes && name == "BPE" ? "byte-level BPE" : name;
  }
  for (const auto& [name, kind] : {std::pair{"vocab.txt", "WordPiece"},
                                   {"merges.txt", "byte-level BPE"},
                                   {"spiece.model", "SentencePiece"},
                                   {"source.spm", "SentencePiece"}}) {
    if (folder_of(file).has(name)) return kind;
  }
  return "unknown";
}

// The fields of a model card: the lines "NAME: VALUE" between two lines of hyphens at the start of README.md.
std::map<std::string, std::string> read_card(const ModelFile& file) {
  std::map<std::string, std::string> fields;
  const Result<MappedFile> mapped = folder_of(file).open("README.md");
  if (!mapped.ok()) return fields;
  const std::string_view text(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size());
  if (!text.starts_with("---")) return fields;
  const std::vector<std::string_view> lines = split_lines(text);
  for (const std::string_view line : std::span(lines).subspan(1)) {
    if (line.starts_with("---")) break;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.front() == ' ' || line.front() == '-') continue;
    std::string_view value = line.substr(colon + 1);
    const auto outside = [](char c) { return c == ' ' || c == '"' || c == '\'' || c == '\r'; };
    while (!value.empty() && outside(value.front())) value.remove_prefix(1);
    while (!value.empty() && outside(value.back())) value.remove_suffix(1);
    if (!value.empty()) fields.emplace(line.substr(0, colon), value);
  }
  return fields;
}

Metadata gguf_metadata(const ModelFile& file) {
  Metadata metadata;
  // The first name of each row that the file has is shown.
  const std::pair<const char*, std::vector<const char*>> rows[] = {
      {"name", {"general.name"}},
      {"author", {"general.author", "general.organization"}},
      {"licence", {"general.license", "general.license.name", "general.license.link"}},
      {"source",
       {"general.source.url", "general.source.repo_url", "general.source.huggingface.repository",
        "general.repo_url", "general.url", "general.base_model.0.repo_url"}}};
  for (const auto& [label, names] : rows) {
    for (const char* name : names) {
      const Result<std::string> value = file.fields().string_or(name, "");
      if (!value.ok() || value->empty()) continue;
      metadata.emplace_back(label, *value);
      break;
    }
  }
  return metadata;
}

Metadata hugging_face_metadata(const ModelFile& file) {
  Metadata metadata;
  const std::map<std::string, std::string> card = read_card(file);
  const auto add = [&](const char* label, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const auto found = card.find(name);
      if (found == card.end()) continue;
      metadata.emplace_back(label, found->second);
      return true;
    }
    return false;
  };
  add("name", {"model_name", "pretty_name"});
  if (!add("licence", {"license_name", "license"}) && folder_of(file).has("LICENSE")) {
    metadata.emplace_back("licence", "see LICENSE in the folder");
  }
  const Result<std::string> path = file.fields().string_or("_name_or_path", "");
  if (path.ok() && !path->empty()) {
    metadata.emplace_back("source", *path);
  } else {
    add("source", {"base_model"});
  }
  return metadata;
}

} // namespace

bool has_chat_template(const ModelFile& file) {
  const Result<ChatTemplates> templates = ChatTemplates::of(file);
  return templates.ok() && !templates->empty();
}

ModelFacts read_model_facts(const ModelFile& file) {
  ModelFacts facts;
  facts.quantisation = quantisation(file);
  if (!file.has_weights()) facts.no_weights = no_weights(file).message;
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(file);
  if (tokenizer.ok()) {
    facts.tokenizer = TokenizerFacts{tokenizer_kind(file), (*tokenizer)->vocabulary_size()};
  } else if (tokenizer.error().code != Code::not_found) {
    facts.no_tokenizer = tokenizer.error().message;
  }
  facts.chat_template = has_chat_template(file);
  facts.metadata =
      file.format() == ModelFile::Format::gguf ? gguf_metadata(file) : hugging_face_metadata(file);
  return facts;
}

} // namespace pumice
