// Renders chat templates for oracle.py: reads lines of JSON {"template", "variables"} and answers each with
// {"text"} or {"error"}.
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include "text/jinja/template.h"

using namespace pumice;
using nlohmann::ordered_json;

namespace {

Result<std::string> rendered(const ordered_json& line, const text::jinja::Options& options) {
  PUMICE_TRY(const text::jinja::Template parsed,
             text::jinja::Template::parse(line["template"].get_ref<const std::string&>()));
  return parsed.render(line["variables"], options);
}

} // namespace

int main() {
  text::jinja::Options options;
  options.now.tm_year = 126, options.now.tm_mon = 6, options.now.tm_mday = 26, options.now.tm_hour = 12;
  std::mktime(&options.now); // the day of the week
  for (std::string line; std::getline(std::cin, line);) {
    const Result<std::string> text = rendered(ordered_json::parse(line), options);
    const ordered_json answer =
        text.ok() ? ordered_json{{"text", *text}} : ordered_json{{"error", text.error().message}};
    std::cout << answer.dump() << std::endl;
  }
}
