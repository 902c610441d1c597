#include <chrono>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/path.h"
#include "chat/chosen_template.h"
#include "input/input_stream.h"
#include "io/json_text.h"
#include "options/subcommand.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct TemplateOptions {
  std::string source;
  std::string messages;
  std::string now;
  std::string chosen;
};

Result<nlohmann::ordered_json> read_variables(const std::string& path) {
  InputStream stream(path);
  PUMICE_TRY(const std::string text, read_all(stream));
  PUMICE_TRY(nlohmann::ordered_json variables, parse_ordered_json(text, stream.name()));
  if (variables.is_array() && !variables.empty())
    variables = {{"messages", std::move(variables)}, {"add_generation_prompt", true}};
  if (const Status status = check_messages(variables); !status.ok())
    return Error{status.error().code, fmt::format("{}: {}", stream.name(), status.error().message)};
  return variables;
}

// "2026-07-26T12:00:00" as a local time.
Result<std::tm> parse_time(const std::string& text) {
  int year = 0, hour = 0, minute = 0, second = 0, end = 0;
  unsigned month = 0, day = 0;
  const int read = std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute,
                               &second, &end);
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  const bool whole = read == 6 && end == 19 && text.size() == 19 && date.ok();
  if (!whole || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
    return Error{Code::invalid_argument,
                 fmt::format("--now: '{}' is not a time such as 2026-07-26T12:00:00", text)};
  }
  const std::chrono::sys_days days = date, first = std::chrono::year(year) / 1 / 1;
  std::tm time = {};
  time.tm_year = year - 1900, time.tm_mon = static_cast<int>(month) - 1, time.tm_mday = static_cast<int>(day);
  time.tm_hour = hour, time.tm_min = minute, time.tm_sec = second;
  time.tm_wday = static_cast<int>(std::chrono::weekday(days).c_encoding());
  time.tm_yday = static_cast<int>((days - first).count());
  return time;
}

Status print_rendered(const TemplateOptions& options) {
  std::tm now = local_time();
  if (!options.now.empty()) {
    PUMICE_TRY(now, parse_time(options.now));
  }
  PUMICE_TRY(const nlohmann::ordered_json variables, read_variables(options.messages));
  const bool with_tools = variables.contains("tools") && !variables["tools"].empty();
  PUMICE_TRY(const ChatTemplate chosen, choose_template(options.source, options.chosen, with_tools));
  PUMICE_TRY(const std::string text, chosen.render(variables, now));
  print_result(text);
  return {};
}

} // namespace

Subcommand add_template(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("template", "Show the prompt that a chat template makes of messages.");
  auto options = std::make_shared<TemplateOptions>();
  sub->add_option("MODEL_OR_FILE", options->source,
                  "A folder with a model, a GGUF file, or a file that is a template in the language Jinja")
      ->required()
      ->type_name("");
  sub->add_option(
         "--messages", options->messages,
         "A JSON object with \"messages\" and the template's other variables, such as tools, "
         "add_generation_prompt and enable_thinking. The model's special tokens, such as bos_token, are "
         "added where the object has none. - is standard input")
      ->required()
      ->type_name("FILE")
      ->group("Prompt");
  sub->add_option(
         "--template", options->chosen,
         "Use this file, or the model's template of this name. Else the one for messages with or without "
         "tools is used: tool_use or default")
      ->type_name("FILE|NAME")
      ->group("Prompt");
  sub->add_option("--now", options->now,
                  "The local time for templates that write the date; else the current one")
      ->type_name("TIME")
      ->group("Prompt");
  sub->footer("The text is printed as it is, without a newline after it.\n\n" +
              example("pumice template FOLDER --messages chat.json --now 2026-07-26T12:00:00"));
  return {sub, [options] { return print_rendered(*options); }};
}

} // namespace pumice::command
