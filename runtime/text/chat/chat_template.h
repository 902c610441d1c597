#pragma once

#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/jinja/template.h"

namespace pumice {

class ModelFile;
class ModelFolder;

// Whether a template's variables have a conversation: "messages", a list of objects that each have a "role".
// invalid_argument with what is wrong. render() checks it too.
Status check_messages(const nlohmann::ordered_json& variables);

// Turns messages into a model's prompt.
class ChatTemplate {
public:
  // `variables` is an object with "messages", as check_messages() wants them, and with all else
  // that the template reads: "tools", "add_generation_prompt", "enable_thinking" and so on. The model's
  // special tokens, such as "bos_token", are added where it has none. `now` is the local time, for templates
  // that write the date. Errors are invalid_argument: what is wrong with the messages, or what the template
  // raises, with the template's file, line and construct.
  Result<std::string> render(nlohmann::ordered_json variables, const std::tm& now) const;
  // The template itself, which shows how its model marks the parts of its answers.
  const std::string& text() const { return text_; }

private:
  friend class ChatTemplates;
  ChatTemplate(text::jinja::Template parsed, std::string text, std::string from,
               nlohmann::ordered_json tokens)
      : parsed_(std::move(parsed)), text_(std::move(text)), from_(std::move(from)),
        tokens_(std::move(tokens)) {}

  text::jinja::Template parsed_;
  std::string text_;
  std::string from_;
  nlohmann::ordered_json tokens_;
};

// The chat templates that come with a model, by name, and its special tokens. A model that only continues a
// text has none.
class ChatTemplates {
public:
  // Of a model's folder, of a GGUF file, or of any other file, which is then a template itself. Errors name
  // file and field: not_found, io, invalid_file. A template is not parsed before it is chosen.
  static Result<ChatTemplates> open(const std::filesystem::path& path);
  // Of a model that is open: of its GGUF file, or of the folder that it lies in.
  static Result<ChatTemplates> of(const ModelFile& model);

  bool empty() const { return all_.empty(); }
  std::vector<std::string> names() const;

  // The template of this name. With an empty name the one that is meant for messages with or without tools:
  // "tool_use" or "default", or the only one. Errors: not_found, with the names that there are; invalid_file,
  // with file, field, line and construct.
  Result<ChatTemplate> choose(std::string_view name, bool with_tools) const;
  // A template of the user's own, for the same model. `from` names it in messages.
  Result<ChatTemplate> read(const std::filesystem::path& path) const;
  Result<ChatTemplate> parse(std::string text, std::string from) const;

private:
  struct Source {
    std::string name, text;
    std::string from; // the file, and the field if it has fields
  };

  static Result<ChatTemplates> of_folder(const ModelFolder& folder);
  static Result<ChatTemplates> of_gguf(const ModelFile& model);
  Status add_config(const ModelFolder& folder, std::string_view name);
  void add(std::string name, std::string text, std::string from); // in the place of one of this name
  Result<ChatTemplate> parse(const Source& source) const;

  std::string path_; // of the model, for messages
  std::vector<Source> all_;
  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::object();
};

} // namespace pumice
