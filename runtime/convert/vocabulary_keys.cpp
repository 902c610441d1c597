#include "convert/vocabulary_keys.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/json_text.h"
#include "text/formats/gguf_vocabulary_writer.h"
#include "text/tokenizer.h"

namespace pumice {

namespace {

using nlohmann::json;

// Reads a JSON file of the model's folder; an empty object if there is none.
Result<json> read_beside(const std::filesystem::path& folder, const char* name) {
  const std::filesystem::path path = folder / name;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return json::object();
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  return parse_json_object(file.bytes(), file.path());
}

// The files of the folder that name special tokens and chat templates.
struct Settings {
  const json* config = nullptr; // config.json
  json generation;              // generation_config.json
  json tokenizer;               // tokenizer_config.json
};

// Appends the ids of a field such as eos_token_id, which holds one id, several or none.
void append_ids(const json& object, const std::string& name, uint32_t rows, std::vector<uint32_t>& ids) {
  const auto found = object.find(name);
  if (found == object.end()) return;
  for (const json& id : found->is_array() ? *found : json::array({*found})) {
    if (id.is_number_unsigned() && id.get<uint64_t>() < rows) ids.push_back(id.get<uint32_t>());
  }
}

// The ids with a role ("bos", "eos", "pad"), the most reliable first: tokenizer_config.json names the token
// itself; the model's files give ids, often several that end a text.
std::vector<uint32_t> ids_of(const Settings& settings, const std::string& role, uint32_t rows,
                             const Tokenizer* tokenizer) {
  std::vector<uint32_t> ids;
  if (const auto found = settings.tokenizer.find(role + "_token");
      tokenizer && found != settings.tokenizer.end()) {
    const json text = found->is_object() ? found->value("content", json()) : *found;
    const auto id = text.is_string() ? tokenizer->find(text.get<std::string>()) : std::nullopt;
    if (id && *id < rows) ids.push_back(*id);
  }
  append_ids(*settings.config, role + "_token_id", rows, ids);
  if (const auto text = settings.config->find("text_config"); text != settings.config->end())
    append_ids(*text, role + "_token_id", rows, ids);
  append_ids(settings.generation, role + "_token_id", rows, ids);
  std::vector<uint32_t> unique;
  for (uint32_t id : ids) {
    if (std::find(unique.begin(), unique.end(), id) == unique.end()) unique.push_back(id);
  }
  return unique;
}

void add_chat_templates(const Settings& settings, const std::filesystem::path& folder, GgufWriter& writer) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, std::string_view text) {
    if (name == "default") return writer.add("tokenizer.chat_template", text);
    names.push_back(name);
    writer.add("tokenizer.chat_template." + name, text);
  };
  if (Result<MappedFile> file = MappedFile::open(folder / "chat_template.jinja"); file.ok()) {
    return add("default", as_text(file->bytes()));
  }
  const auto found = settings.tokenizer.find("chat_template");
  if (found == settings.tokenizer.end()) return;
  if (found->is_string()) return add("default", found->get_ref<const std::string&>());
  if (!found->is_array()) return;
  for (const json& each : *found) {
    if (!each.is_object()) continue;
    const json name = each.value("name", json()), text = each.value("template", json());
    if (name.is_string() && text.is_string())
      add(name.get<std::string>(), text.get_ref<const std::string&>());
  }
  if (!names.empty()) writer.add_array("tokenizer.chat_templates", std::span<const std::string>(names));
}

void add_table(const text::GgufVocabularyTable& table, GgufWriter& writer) {
  writer.add("tokenizer.ggml.model", table.model);
  writer.add("tokenizer.ggml.pre", table.pre);
  writer.add_array("tokenizer.ggml.tokens", std::span<const std::string>(table.tokens));
  if (!table.scores.empty()) writer.add_array("tokenizer.ggml.scores", std::span<const float>(table.scores));
  writer.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(table.types));
  if (table.model == "gpt2")
    writer.add_array("tokenizer.ggml.merges", std::span<const std::string>(table.merges));
  if (table.unknown) writer.add("tokenizer.ggml.unknown_token_id", *table.unknown);
  // Always written, because readers have different defaults.
  writer.add("tokenizer.ggml.add_bos_token", table.add_bos);
  writer.add("tokenizer.ggml.add_eos_token", table.add_eos);
  if (table.lowercase) writer.add("tokenizer.ggml.normalizer.lowercase", *table.lowercase);
  if (table.model == "llama") writer.add("tokenizer.ggml.add_space_prefix", table.add_space_prefix);
}

// A token that is added around a text has the role, whatever the settings say.
std::optional<uint32_t> pick(bool added, std::optional<uint32_t> of_vocabulary,
                             const std::vector<uint32_t>& named) {
  return added || named.empty() ? of_vocabulary : named.front();
}

void add_roles(const Settings& settings, uint32_t rows, const Tokenizer* tokenizer,
               const text::GgufVocabularyTable& table, GgufWriter& writer) {
  const auto add = [&](const char* role, std::optional<uint32_t> id) {
    if (id && *id < rows) writer.add(fmt::format("tokenizer.ggml.{}_token_id", role), *id);
  };
  const std::vector<uint32_t> pads = ids_of(settings, "pad", rows, tokenizer);
  std::vector<uint32_t> ends = ids_of(settings, "eos", rows, tokenizer);
  const std::optional<uint32_t> eos = pick(table.add_eos, table.eos, ends);
  add("bos", pick(table.add_bos, table.bos, ids_of(settings, "bos", rows, tokenizer)));
  add("eos", eos);
  if (!pads.empty()) add("padding", pads.front());
  if (table.model == "bert") { // the second is llama.cpp's spelling
    add("cls", table.bos);
    add("seperator", table.eos);
    add("mask", tokenizer->find("[MASK]"));
  }
  // A chat model ends a turn of the dialogue with other tokens than a text.
  if (eos) std::erase(ends, *eos);
  if (!ends.empty()) add("eot", ends[0]);
  if (ends.size() > 1) add("eom", ends[1]);
}

} // namespace

Status add_vocabulary(const ModelFile& file, uint32_t rows, bool wanted, GgufWriter& writer,
                      std::vector<std::string>& notes) {
  const std::filesystem::path folder = path_of(file.path());
  Settings settings{.config = &file.config()};
  PUMICE_TRY(settings.generation, read_beside(folder, "generation_config.json"));
  PUMICE_TRY(settings.tokenizer, read_beside(folder, "tokenizer_config.json"));
  if (!wanted || file.tokenizer_path().empty()) {
    if (wanted)
      notes.push_back(fmt::format("{}: there is no tokenizer.json: the file has no vocabulary", file.path()));
    writer.add("tokenizer.ggml.model", "no_vocab");
    add_roles(settings, rows, nullptr, {}, writer);
    return {};
  }
  PUMICE_TRY(MappedFile json_file, MappedFile::open(file.tokenizer_path()));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer,
             Tokenizer::parse_json(as_text(json_file.bytes()), json_file.path()));
  PUMICE_TRY(const text::GgufVocabularyTable table,
             text::gguf_vocabulary(as_text(json_file.bytes()), json_file.path(), rows));
  for (const std::string& note : table.notes) notes.push_back(fmt::format("{}: {}", json_file.path(), note));
  add_table(table, writer);
  add_roles(settings, rows, tokenizer.get(), table, writer);
  add_chat_templates(settings, folder, writer);
  return {};
}

} // namespace pumice
