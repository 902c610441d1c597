#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "text/unicode/regex.h"

namespace pumice::text {

namespace {

constexpr std::string_view kScripts[] = {
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Cyrillic", "Devanagari", "Georgian",
    "Greek",  "Gujarati", "Han",     "Hangul",   "Hebrew",   "Hiragana",   "Katakana",
    "Khmer",  "Lao",      "Latin",   "Myanmar",  "Tamil",    "Telugu",     "Thai"};

// Copies an Oniguruma pattern and replaces the few constructs that have another meaning in PCRE2.
class Translator {
public:
  Translator(std::string_view pattern, bool has_binary_properties)
      : pattern_(pattern), has_binary_properties_(has_binary_properties) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (depth_ == 0 && c == '[') {
        open_set();
      } else if (depth_ == 0 && starts("(?C")) {
        return Error{Code::unsupported, "a regular expression with a callout (?C), which is not supported"};
      } else if (depth_ > 0) {
        PUMICE_CHECK(in_set(c));
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

private:
  bool starts(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void copy(size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  // In PCRE2, \s also matches U+180E and \h means horizontal space. \Z, \A, \z and the other escapes agree.
  void escape() {
    if (at_ + 1 == pattern_.size()) return copy(1);
    switch (pattern_[at_ + 1]) {
    case 's':
      return replace(has_binary_properties_ ? "\\p{White_Space}" : "\\s");
    case 'S':
      return replace(has_binary_properties_ ? "\\P{White_Space}" : "\\S");
    case 'h':
      return replace(depth_ > 0 ? "0-9a-fA-F" : "[0-9a-fA-F]");
    case 'p':
    case 'P':
      return property();
    default:
      return copy(2);
    }
  }

  // In PCRE2, \p{Han} also matches marks that are used with Han, such as U+3002.
  void property() {
    copy(2);
    if (!has_binary_properties_ || !starts("{")) return;
    const std::string_view name = pattern_.substr(at_ + 1, pattern_.substr(at_ + 1).find('}'));
    if (std::ranges::find(kScripts, name) == std::end(kScripts)) return;
    copy(1);
    out_ += "sc:";
  }

  void replace(std::string_view with) {
    out_ += with;
    at_ += 2;
  }

  void open_set() {
    depth_ = 1;
    copy(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') copy(1);
    first_in_set_ = at_;
  }

  // A set within a set, without ^, adds its members. So its brackets are dropped and its members stay.
  Status in_set(char c) {
    if (c == ']' && at_ == first_in_set_) {
      copy(1);
    } else if (c == ']') {
      if (--depth_ == 0) {
        copy(1);
      } else {
        ++at_;
      }
    } else if (starts("[:")) {
      size_t end = pattern_.find(":]", at_);
      copy(end == std::string_view::npos ? 1 : end + 2 - at_);
    } else if (starts("[^") || starts("&&")) {
      return Error{
          Code::unsupported,
          fmt::format("the regular expression \"{}\" uses \"{}\" inside a set, which is not supported",
                      pattern_.substr(0, 200), pattern_.substr(at_, 2))};
    } else if (c == '[') {
      ++depth_;
      first_in_set_ = ++at_;
    } else {
      copy(1);
    }
    return {};
  }

  std::string_view pattern_;
  bool has_binary_properties_;
  size_t at_ = 0;
  int depth_ = 0; // of nested sets
  size_t first_in_set_ = 0;
  std::string out_;
};

} // namespace

Result<std::string> translate_pattern(std::string_view pattern, bool has_binary_properties) {
  return Translator(pattern, has_binary_properties).run();
}

} // namespace pumice::text
