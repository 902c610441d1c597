#include "text/jinja/template.h"

#include <new>

#include <nlohmann/json.hpp>

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/parser.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

struct Parsed {
  Statements statements;
};

namespace {

constexpr size_t largest_source = 4 << 20; // the longest that are known have 20,000 bytes

Error error_of(const Failure& failure, Code code) {
  std::string place = failure.line ? fmt::format("line {}", failure.line) : "";
  if (!failure.construct.empty())
    place += fmt::format("{}in {}", place.empty() ? "" : ", ", failure.construct);
  return {code, place.empty() ? failure.message
                              : fmt::format("{} ({} of the chat template)", failure.message, place)};
}

} // namespace

Result<Template> Template::parse(std::string_view source) try {
  if (source.size() > largest_source) {
    return Error{Code::invalid_file, fmt::format("the chat template has {} bytes: at most {} are read",
                                                 source.size(), largest_source)};
  }
  if (!is_valid_utf8(source)) return Error{Code::invalid_file, "the chat template is not UTF-8"};
  return Template(std::make_shared<const Parsed>(Parsed{parse_template(source)}));
} catch (const Failure& failure) {
  return error_of(failure, Code::invalid_file);
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, "not enough memory for the chat template"};
}

Result<std::string> Template::render(const nlohmann::ordered_json& variables, const Options& options) const
    try {
  if (!variables.is_object())
    return Error{Code::invalid_argument, "the variables of a chat template must be a JSON object"};
  const Value given = from_json(variables);
  return Interpreter(*given.dict(), options).run(parsed_->statements);
} catch (const Failure& failure) {
  return error_of(failure, Code::invalid_argument);
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, "not enough memory to render the chat template"};
}

} // namespace pumice::text::jinja
