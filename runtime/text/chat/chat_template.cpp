#include "text/chat/chat_template.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/bytes.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/model_file.h"

namespace pumice {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view plain_name = "default";

bool is_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

bool holds_gguf(const std::filesystem::path& path, const MappedFile& file) {
  return path.extension() == ".gguf" ||
         (file.bytes().size() >= 4 && std::memcmp(file.bytes().data(), "GGUF", 4) == 0);
}

Result<std::string> read_file(const std::filesystem::path& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  return std::string(as_text(file.bytes()));
}

// The files NAME.jinja of a folder, in the order of their names.
std::vector<std::filesystem::path> templates_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".jinja") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

} // namespace

Status check_messages(const ordered_json& variables) {
  const auto bad = [](const std::string& what) { return Error{Code::invalid_argument, what}; };
  if (!variables.is_object()) return bad("expected an object with \"messages\"");
  const auto messages = variables.find("messages");
  if (messages == variables.end()) return bad("there are no \"messages\"");
  if (!messages->is_array()) {
    return bad(fmt::format("\"messages\": expected a list, found {}", messages->type_name()));
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    const ordered_json& message = (*messages)[i];
    if (!message.is_object()) {
      return bad(fmt::format("\"messages\"[{}]: expected an object with a \"role\", found {}", i,
                             message.type_name()));
    }
    const auto role = message.find("role");
    if (role == message.end()) return bad(fmt::format("\"messages\"[{}] has no \"role\"", i));
    if (!role->is_string()) {
      return bad(
          fmt::format("\"messages\"[{}]: \"role\" has to be a string, and is {}", i, role->type_name()));
    }
  }
  return {};
}

Result<std::string> ChatTemplate::render(ordered_json variables, const std::tm& now) const {
  PUMICE_CHECK(check_messages(variables));
  for (const auto& [name, token] : tokens_.items()) {
    if (!variables.contains(name)) variables[name] = token;
  }
  text::jinja::Options options;
  options.now = now;
  Result<std::string> text = parsed_.render(variables, options);
  if (!text.ok()) return Error{text.error().code, fmt::format("{}: {}", from_, text.error().message)};
  return text;
}

Result<ChatTemplates> ChatTemplates::open(const std::filesystem::path& path) {
  if (is_folder(path)) return of_folder(path);
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  if (holds_gguf(path, file)) {
    PUMICE_TRY(const ModelFile model, ModelFile::open(path));
    return of(model);
  }
  ChatTemplates templates;
  templates.path_ = path_text(path);
  templates.add(std::string(plain_name), std::string(as_text(file.bytes())), path_text(path));
  return templates;
}

Result<ChatTemplates> ChatTemplates::of(const ModelFile& model) {
  if (model.format() == ModelFile::Format::gguf) return of_gguf(model);
  if (model.folder().in_gguf()) return of_folder(model.folder());
  const std::filesystem::path path = model.path();
  return of_folder(is_folder(path) ? path : path.parent_path());
}

Result<ChatTemplates> ChatTemplates::of_folder(const ModelFolder& folder) {
  ChatTemplates templates;
  templates.path_ = folder.path();
  PUMICE_CHECK(templates.add_config(folder, "tokenizer_config.json"));
  PUMICE_CHECK(templates.add_config(folder, "chat_template.json")); // of a model that sees
  if (!folder.in_gguf()) {
    for (const std::filesystem::path& file : templates_in(folder.on_disk() / "chat_templates")) {
      PUMICE_TRY(std::string text, read_file(file));
      const std::string stem = path_text(file.stem());
      templates.add(stem == "chat_template" ? std::string(plain_name) : stem, std::move(text),
                    path_text(file));
    }
  }
  // The newer place goes before the older one.
  if (constexpr const char* newer = "chat_template.jinja"; folder.has(newer)) {
    PUMICE_TRY(const MappedFile file, folder.open(newer));
    templates.add(std::string(plain_name), std::string(as_text(file.bytes())), file.path());
  }
  return templates;
}

Status ChatTemplates::add_config(const ModelFolder& folder, std::string_view name) {
  if (!folder.has(name)) return {};
  PUMICE_TRY(const MappedFile file, folder.open(name));
  PUMICE_TRY(const json config, parse_json_object(file.bytes(), file.path()));
  for (const char* name : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
    const auto found = config.find(name);
    if (found == config.end()) continue;
    const json text = found->is_object() ? found->value("content", json()) : *found;
    if (text.is_string()) tokens_[name] = text.get<std::string>();
  }
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  const auto bad = [&](const std::string& field, const char* expected, const json& value) {
    return Error{Code::invalid_file, fmt::format("{}: field '{}': expected {}, found {}", file.path(), field,
                                                 expected, describe(value))};
  };
  if (found->is_string()) {
    add(std::string(plain_name), found->get<std::string>(), file.path() + ": chat_template");
    return {};
  }
  if (!found->is_array()) return bad("chat_template", "a template or a list of named ones", *found);
  for (size_t i = 0; i < found->size(); ++i) {
    const json& each = (*found)[i];
    const std::string field = fmt::format("chat_template[{}]", i);
    if (!each.is_object()) return bad(field, "an object with name and template", each);
    const json name = each.value("name", json()), text = each.value("template", json());
    if (!name.is_string()) return bad(field + ".name", "a string", name);
    if (!text.is_string()) return bad(field + ".template", "a string", text);
    add(name.get<std::string>(), text.get<std::string>(), fmt::format("{}: {}", file.path(), field));
  }
  return {};
}

Result<ChatTemplates> ChatTemplates::of_gguf(const ModelFile& model) {
  static constexpr std::string_view field = "tokenizer.chat_template";
  const Fields fields = model.fields();
  ChatTemplates templates;
  templates.path_ = model.path();
  for (const auto& [key, value] : model.config().items()) {
    const bool plain = key == field;
    if (!plain && !key.starts_with(std::string(field) + ".")) continue;
    PUMICE_TRY(std::string text, fields.string(key));
    templates.add(plain ? std::string(plain_name) : key.substr(field.size() + 1), std::move(text),
                  fmt::format("{}: {}", model.path(), key));
  }
  const GgufArray* tokens = model.array("tokenizer.ggml.tokens");
  if (!tokens) return templates;
  const std::vector<std::string_view> texts = tokens->strings();
  for (const auto& [name, key] : {std::pair{"bos_token", "tokenizer.ggml.bos_token_id"},
                                  {"eos_token", "tokenizer.ggml.eos_token_id"},
                                  {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                  {"pad_token", "tokenizer.ggml.padding_token_id"}}) {
    PUMICE_TRY(const uint32_t id, fields.u32_or(key, UINT32_MAX));
    if (id < texts.size()) templates.tokens_[name] = std::string(texts[id]);
  }
  return templates;
}

void ChatTemplates::add(std::string name, std::string text, std::string from) {
  std::erase_if(all_, [&](const Source& source) { return source.name == name; });
  all_.push_back({std::move(name), std::move(text), std::move(from)});
}

std::vector<std::string> ChatTemplates::names() const {
  std::vector<std::string> names;
  for (const Source& source : all_) names.push_back(source.name);
  return names;
}

Result<ChatTemplate> ChatTemplates::choose(std::string_view name, bool with_tools) const {
  const auto find = [&](std::string_view wanted) -> const Source* {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const Source& source) { return source.name == wanted; });
    return found == all_.end() ? nullptr : &*found;
  };
  const Source* found = nullptr;
  if (!name.empty()) {
    found = find(name);
  } else {
    if (with_tools) found = find("tool_use");
    if (!found) found = find(plain_name);
    if (!found && all_.size() == 1) found = &all_[0];
  }
  if (found) return parse(*found);
  if (all_.empty()) return Error{Code::not_found, fmt::format("{}: there is no chat template in it", path_)};
  return Error{Code::not_found, fmt::format("{}: there is no chat template '{}' in it, but {}", path_,
                                            name.empty() ? plain_name : name, fmt::join(names(), ", "))};
}

Result<ChatTemplate> ChatTemplates::read(const std::filesystem::path& path) const {
  PUMICE_TRY(std::string text, read_file(path));
  return parse(std::move(text), path_text(path));
}

Result<ChatTemplate> ChatTemplates::parse(std::string text, std::string from) const {
  return parse({std::string(plain_name), std::move(text), std::move(from)});
}

Result<ChatTemplate> ChatTemplates::parse(const Source& source) const {
  Result<text::jinja::Template> parsed = text::jinja::Template::parse(source.text);
  if (!parsed.ok()) {
    return Error{parsed.error().code, fmt::format("{}: {}", source.from, parsed.error().message)};
  }
  return ChatTemplate(*std::move(parsed), source.text, source.from, tokens_);
}

} // namespace pumice
