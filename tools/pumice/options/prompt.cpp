#include "options/prompt.h"

#include <charconv>

#include <fmt/format.h>

#include "terminal/counted.h"
#include "terminal/interrupt.h"
#include "text/unicode/unicode.h"

namespace pumice::command {

Status check_utf8(std::string_view text, const std::string& source) {
  size_t at = 0;
  while (at < text.size()) {
    const text::Utf8Head head = text::utf8_head(text.substr(at));
    if (head.kind != text::Utf8::whole) {
      return Error{Code::invalid_argument,
                   fmt::format("{}: the text is not UTF-8: no character begins with the byte 0x{:02X} at "
                               "offset {}",
                               source, static_cast<uint8_t>(text[at]), at)};
    }
    at += head.length;
  }
  return {};
}

Result<std::vector<uint32_t>> parse_ids(const std::string& text, const std::string& source) {
  std::vector<uint32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    uint32_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (rest < end && *rest != ',') || rest + 1 == end) {
      return Error{
          Code::invalid_argument,
          fmt::format("{}: '{}' is not a list of whole numbers with commas between them, such as 1,403,407",
                      source, text)};
    }
    ids.push_back(id);
    at = rest + 1;
  }
  return ids;
}

std::string without_escapes(std::string_view text) {
  constexpr std::string_view letters = "ntr\"'\\", meanings = "\n\t\r\"'\\";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t letter =
        text[i] == '\\' && i + 1 < text.size() ? letters.find(text[i + 1]) : std::string::npos;
    result += letter == std::string::npos ? text[i] : meanings[letter];
    i += letter != std::string::npos;
  }
  return result;
}

Status check_fits(size_t count, uint32_t context, const std::string& source) {
  if (count < context) return {};
  return Error{
      Code::invalid_argument,
      fmt::format("{}: {} do not fit the context of {}: at most {} do, so that one more token has a place",
                  source, counted(count, "token"), counted(context, "token"), context - 1)};
}

Result<std::vector<uint32_t>> encode_prompt(const Tokenizer& tokenizer, const std::string& text,
                                            const std::string& source) {
  if (text.empty()) return Error{Code::invalid_argument, fmt::format("{} is empty: give a text", source)};
  PUMICE_CHECK(check_utf8(text, source));
  return tokenizer.encode(text, true);
}

} // namespace pumice::command
