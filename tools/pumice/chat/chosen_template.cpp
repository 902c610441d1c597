#include "chat/chosen_template.h"

#include <fmt/format.h>

#include "base/path.h"
#include "io/json_text.h"

namespace pumice::command {

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  return *std::localtime(&now); // no other thread runs
}

Result<ChatTemplate> choose_template(const std::string& model, const std::string& chosen, bool with_tools) {
  PUMICE_TRY(const ChatTemplates templates, ChatTemplates::open(path_of(model)));
  if (chosen.empty() && templates.empty()) {
    return Error{Code::not_found,
                 fmt::format("{}: there is no chat template in it, so it is probably not made for "
                             "chats: continue a text with 'pumice run', or name a template's file "
                             "with --template",
                             model)};
  }
  std::error_code ignored;
  if (!chosen.empty() && std::filesystem::is_regular_file(path_of(chosen), ignored))
    return templates.read(path_of(chosen));
  Result<ChatTemplate> named = templates.choose(chosen, with_tools);
  if (named.ok() || chosen.empty() || named.error().code != Code::not_found) return named;
  return Error{Code::not_found,
               fmt::format("--template: there is no file '{}'; {}", chosen, named.error().message)};
}

Result<nlohmann::ordered_json> parse_variables(const std::string& json) {
  PUMICE_TRY(nlohmann::ordered_json variables, parse_ordered_json(json, "--chat-template-kwargs"));
  if (variables.is_object() && !variables.contains("messages")) return variables;
  return Error{Code::invalid_argument,
               "--chat-template-kwargs: expected an object of the template's variables, such as "
               "{\"enable_thinking\": false}, without messages"};
}

} // namespace pumice::command
