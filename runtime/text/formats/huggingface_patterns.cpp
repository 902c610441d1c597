// Readers of small fields that several sections of a tokenizer.json share.
#include "text/formats/huggingface_parts.h"

#include "text/unicode/unicode.h"

namespace pumice::text {

Result<Pattern> read_pattern(const JsonField& field) {
  PUMICE_CHECK(field.object());
  Pattern pattern;
  if (field.has("String")) {
    PUMICE_TRY(pattern.string, field.at("String").string());
    return pattern;
  }
  if (!field.has("Regex")) return field.expected("{\"String\": ...} or {\"Regex\": ...}");
  PUMICE_TRY(std::string text, field.at("Regex").string());
  Result<Regex> regex = Regex::compile(text);
  if (!regex) return Error{regex.error().code, fmt::format("{}: {}", field.where(), regex.error().message)};
  pattern.regex = *std::move(regex);
  return pattern;
}

Result<std::string> read_character(const JsonField& field, std::string fallback) {
  if (field.is_null()) return fallback;
  PUMICE_TRY(std::string text, field.string());
  if (text.empty() || first_code_point(text).length != text.size()) return field.expected("one character");
  return text;
}

Result<PrependScheme> read_prepend_scheme(const JsonField& metaspace) {
  // Old files have add_prefix_space instead of prepend_scheme.
  PUMICE_TRY(bool add, metaspace.boolean_or("add_prefix_space", true));
  PUMICE_TRY(std::string scheme, metaspace.string_or("prepend_scheme", add ? "always" : "never"));
  if (scheme == "always") return PrependScheme::always;
  if (scheme == "first") return PrependScheme::first;
  if (scheme == "never") return PrependScheme::never;
  return metaspace.at("prepend_scheme").unsupported("\"always\", \"first\" or \"never\"");
}

Status check_growth(const JsonField& field, double growth) {
  if (growth <= kMaxGrowth) return {};
  return Error{Code::unsupported,
               fmt::format("{}: expected steps that make a text at most {} times longer, found {:.3g}",
                           field.where(), kMaxGrowth, growth)};
}

} // namespace pumice::text
