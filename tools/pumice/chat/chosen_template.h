#pragma once

#include <ctime>
#include <string>

#include "text/chat/chat_template.h"

namespace pumice::command {

// The template of a model that --template chooses: a file, or else a name within the model; empty: the usual
// one. An error for a model without templates says what it is for.
Result<ChatTemplate> choose_template(const std::string& model, const std::string& chosen, bool with_tools);

std::tm local_time();

// The variables that --chat-template-kwargs gives to a template.
Result<nlohmann::ordered_json> parse_variables(const std::string& json);

} // namespace pumice::command
