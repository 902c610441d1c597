#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "text/jinja/characters.h"
#include "text/jinja/failure.h"
#include "text/jinja/numbers.h"
#include "text/unicode/unicode.h"

namespace pumice::text::jinja {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string with_plain_newlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (result.ends_with('\n')) result.pop_back(); // Jinja drops one at the end
  return result;
}

class Lexer {
public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_before_tag();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

private:
  [[noreturn]] void fail_at(int line, std::string message) const {
    throw Failure{std::move(message), line, "the text"};
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool next_is(std::string_view text) const { return rest().starts_with(text); }

  void add(TokenKind kind, std::string text, Value number = {}) {
    tokens_.push_back({kind, line_, std::move(text), std::move(number)});
  }

  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
    if (bytes > 0) line_starts_ = source_[at_ - 1] == '\n';
  }

  size_t spaces_at(size_t at) const {
    const std::string_view text = std::string_view(source_).substr(at);
    return text.size() - strip(text, Side::left).size();
  }

  // The `-` or `+` after a tag's opening braces, or neither.
  char sign_at(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  // The text before a tag, as the tag's sign has it.
  std::string_view before_tag(std::string_view text, char sign, bool may_strip_line) const {
    if (sign == '-') return strip(text, Side::right);
    if (sign == '+' || !may_strip_line) return text;
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string::npos ? 0 : newline + 1;
    if (begin == 0 && !line_starts_) return text;
    return strip(text.substr(begin), Side::left).empty() ? text.substr(0, begin) : text;
  }

  void text_before_tag() {
    size_t tag = at_;
    while ((tag = source_.find('{', tag)) != std::string::npos) {
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    if (tag == std::string::npos) {
      add(TokenKind::data, std::string(rest()));
      advance(rest().size());
      return;
    }
    const char type = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    const std::string_view kept = before_tag(rest().substr(0, tag - at_), sign, type != '{');
    if (!kept.empty()) add(TokenKind::data, std::string(kept));
    advance(tag - at_);
    if (type == '%' && raw_block(sign)) return;
    const int begin_line = line_;
    if (type != '#') add(type == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
    advance(sign ? 3 : 2);
    if (type == '#') return comment(begin_line);
    inside_tag(type == '{' ? "}}" : "%}", begin_line);
  }

  // Passes a tag's end, and the white space after it that it takes away.
  void end_tag(size_t bytes, char sign, bool trims_newline) {
    if (sign == '-') {
      advance(bytes + spaces_at(at_ + bytes));
    } else {
      const bool newline = at_ + bytes < source_.size() && source_[at_ + bytes] == '\n';
      advance(bytes + (trims_newline && sign != '+' && newline ? 1 : 0));
    }
  }

  void comment(int begin_line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail_at(begin_line, "a comment {# has no end #}");
    const char sign = end > at_ ? sign_at(end - 1) : '\0';
    advance(end - at_);
    end_tag(2, sign, true);
  }

  // `name` alone in a tag that begins at `at`: where its end %} begins. Nothing if it is another tag.
  std::optional<size_t> tag_of(std::string_view name, size_t at) const {
    at += 2;
    if (sign_at(at)) ++at;
    at += spaces_at(at);
    if (!std::string_view(source_).substr(at).starts_with(name)) return std::nullopt;
    at += name.size();
    at += spaces_at(at);
    const size_t brace = at + (sign_at(at) ? 1 : 0);
    return std::string_view(source_).substr(brace).starts_with("%}") ? std::optional(at) : std::nullopt;
  }

  bool raw_block(char) {
    const std::optional<size_t> end = tag_of("raw", at_);
    if (!end || sign_at(*end) == '+') return false;
    const int begin_line = line_;
    const char end_sign = sign_at(*end);
    advance(*end - at_);
    end_tag(end_sign ? 3 : 2, end_sign, false);
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string::npos; ++tag) {
      const std::optional<size_t> close = tag_of("endraw", tag);
      if (!close) continue;
      const std::string_view kept = before_tag(rest().substr(0, tag - at_), sign_at(tag + 2), true);
      if (!kept.empty()) add(TokenKind::data, std::string(kept));
      const char sign = sign_at(*close);
      advance(*close - at_);
      end_tag(sign ? 3 : 2, sign, true);
      return true;
    }
    fail_at(begin_line, "{% raw %} has no {% endraw %}");
  }

  // Whether the tag ends here. If so, passes its end.
  bool at_tag_end(std::string_view end) {
    const char sign = sign_at(at_);
    if (sign == '+' && end == "}}") return false;
    if (!rest().substr(sign ? 1 : 0).starts_with(end)) return false;
    add(end == "}}" ? TokenKind::variable_end : TokenKind::block_end, "");
    end_tag(sign ? 3 : 2, sign, end == "%}");
    return true;
  }

  void inside_tag(std::string_view end, int begin_line) {
    std::string open; // the closing brackets that are still to come
    while (at_ < source_.size()) {
      if (open.empty() && at_tag_end(end)) return;
      if (const size_t spaces = spaces_at(at_)) {
        advance(spaces);
      } else if (is_digit(source_[at_])) {
        number();
      } else if (source_[at_] == '"' || source_[at_] == '\'') {
        text();
      } else if (!name()) {
        symbol(open);
      }
    }
    fail_at(begin_line, fmt::format("a tag has no end {}", end));
  }

  bool name() {
    size_t length = 0;
    while (at_ + length < source_.size()) {
      const CodePoint point = first_code_point(rest().substr(length));
      if (point.value != '_' && !is_word(point.value)) break;
      length += point.length;
    }
    if (length == 0) return false;
    add(TokenKind::name, std::string(rest().substr(0, length)));
    advance(length);
    return true;
  }

  void symbol(std::string& open) {
    static constexpr std::array<std::string_view, 27> symbols = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]",
        "(",  ")",  "{",  "}",  ">",  "<",  "=", ".", ":", "|", ",", ";", "!"};
    const auto found = std::find_if(symbols.begin(), symbols.end(), [&](auto s) { return next_is(s); });
    if (found == symbols.end() || *found == "!") {
      fail_at(line_,
              fmt::format("unexpected character '{}'", rest().substr(0, first_code_point(rest()).length)));
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) fail_at(line_, fmt::format("unexpected '{}'", c));
      if (open.back() != c) fail_at(line_, fmt::format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
    add(TokenKind::symbol, std::string(*found));
    advance(found->size());
  }

  // Digits with single underscores between them.
  size_t digits_at(size_t at) const {
    size_t end = at;
    while (end < source_.size() &&
           (is_digit(source_[end]) ||
            (source_[end] == '_' && end > at && end + 1 < source_.size() && is_digit(source_[end + 1])))) {
      ++end;
    }
    return end - at;
  }

  void number() {
    size_t end = at_ + digits_at(at_);
    bool real = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      end += 1 + digits_at(end + 1);
      real = true;
    }
    if (!after_dot && end < source_.size() && (source_[end] | 0x20) == 'e') {
      const size_t digits = end + 1 + (sign_at(end + 1) ? 1 : 0);
      if (const size_t count = digits_at(digits)) {
        end = digits + count;
        real = true;
      }
    }
    std::string written(source_, at_, end - at_);
    if (real) {
      std::erase(written, '_');
      add(TokenKind::number, "", Value(read_float(written).value_or(0)));
      advance(end - at_);
      return;
    }
    // Binary, octal and hexadecimal numbers begin with a zero and a letter.
    const std::string_view head = rest().substr(0, 2);
    if (head == "0x" || head == "0X" || head == "0b" || head == "0B" || head == "0o" || head == "0O") {
      end = at_ + 2;
      while (end < source_.size() &&
             (std::isxdigit(static_cast<unsigned char>(source_[end])) || source_[end] == '_'))
        ++end;
      written = source_.substr(at_, end - at_);
    }
    const std::optional<Integer> value = read_integer(written, 0);
    if (!value) fail_at(line_, fmt::format("{} is no number, or too large", written));
    add(TokenKind::number, "", Value(*value));
    advance(end - at_);
  }

  void text() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail_at(line_, "a string has no end");
    add(TokenKind::text, unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  std::string unescape(std::string_view written) const {
    std::string result;
    while (!written.empty()) {
      if (written[0] != '\\') {
        result += written[0];
        written.remove_prefix(1);
      } else {
        written.remove_prefix(1);
        escape(written, result);
      }
    }
    return result;
  }

  // Resolves the escape after a backslash, as Python does: what is no escape stays as it is.
  void escape(std::string_view& written, std::string& result) const {
    static constexpr std::string_view letters = "\n\\'\"abfnrtv";
    static constexpr std::string_view meanings = "\0\\'\"\a\b\f\n\r\t\v";
    const char c = written[0];
    written.remove_prefix(1);
    if (const size_t at = letters.find(c); at != std::string::npos) {
      if (c != '\n') result += meanings[at];
    } else if (c >= '0' && c <= '7') {
      char32_t value = static_cast<char32_t>(c - '0');
      for (int i = 0; i < 2 && !written.empty() && written[0] >= '0' && written[0] <= '7'; ++i) {
        value = value * 8 + static_cast<char32_t>(written[0] - '0');
        written.remove_prefix(1);
      }
      append_code_point(result, value);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t value = 0;
      const std::string_view hex = written.substr(0, digits);
      const auto read = std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
      const bool surrogate = value >= 0xD800 && value < 0xE000;
      if (hex.size() < digits || read.ptr != hex.data() + digits || value > 0x10FFFF || surrogate)
        fail_at(line_, fmt::format("\\{}{} in a string is no character", c, hex));
      append_code_point(result, value);
      written.remove_prefix(digits);
    } else {
      result += '\\';
      result += c;
    }
  }

  const std::string source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
};

} // namespace

std::vector<Token> split_template(std::string_view source) {
  return Lexer(with_plain_newlines(source)).run();
}

} // namespace pumice::text::jinja
