#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

// Chat templates: Jinja as transformers renders it, with trim_blocks and lstrip_blocks, {% break %},
// {% continue %}, {% generation %}, raise_exception() and strftime_now(). A template sees the variables that
// it is given and nothing else.
namespace pumice::text::jinja {

struct Options {
  std::tm now = {}; // for strftime_now()
  // Beyond these, rendering fails.
  size_t steps = 10'000'000; // of work, as budget.h counts it
  size_t depth = 500;        // of calls and of what nests
  size_t output = 16 << 20;  // bytes, of the result and of every string
};

struct Parsed;

class Template {
public:
  // Code::invalid_file, naming line and construct, if the text is no template.
  static Result<Template> parse(std::string_view source);

  // `variables` is an object whose members are the template's variables. Code::invalid_argument, naming line
  // and construct, if the template raises, uses what is not there, or passes a limit.
  Result<std::string> render(const nlohmann::ordered_json& variables, const Options& options) const;

private:
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

} // namespace pumice::text::jinja
