#include "text/formats/json_tables.h"

#include <utility>

#include "base/number_from_chars.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

namespace {

// Every function returns false where the text is not what it expects, and the reader is done then.
class TableReader {
public:
  TableReader(std::string_view text, JsonDocument& document) : text_(text), document_(document) {}

  std::optional<std::string> run() {
    bool has_model = false;
    const bool ok = read_members([&](std::string_view key) {
      if (key != "model" || !next_is('{')) return skip_value();
      return !std::exchange(has_model, true) && read_model();
    });
    if (!ok) return std::nullopt;
    rest_ += text_.substr(copied_);
    return std::move(rest_);
  }

private:
  bool next_is(char c) {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
    return at_ < text_.size() && text_[at_] == c;
  }
  bool take(char c) {
    const bool found = next_is(c);
    at_ += found;
    return found;
  }

  // Items between two brackets, separated by commas.
  template <class ReadItem>
  bool read_items(char open, char close, const ReadItem& read_item) {
    if (!take(open)) return false;
    if (take(close)) return true;
    do {
      if (!read_item()) return false;
    } while (take(','));
    return take(close);
  }

  // `read_value` gets the key. It is only valid until the next string is read into the same buffer.
  template <class ReadValue>
  bool read_members(const ReadValue& read_value) {
    return read_items('{', '}', [&] {
      std::string_view key;
      return read_string(key, first_) && take(':') && read_value(key);
    });
  }

  // A view of the text, or of `unescaped` if the string has escapes.
  bool read_string(std::string_view& out, std::string& unescaped) {
    if (!take('"')) return false;
    const size_t begin = at_;
    bool has_escapes = false;
    while (at_ < text_.size() && text_[at_] != '"') {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte < 0x20) return false;
      if (byte >= 0x80) {
        const Utf8Head head = utf8_head(text_.substr(at_, 4));
        if (head.kind != Utf8::whole) return false;
        at_ += head.length;
      } else {
        has_escapes |= byte == '\\';
        at_ += byte == '\\' ? 2 : 1;
      }
    }
    if (at_ >= text_.size()) return false;
    out = text_.substr(begin, at_++ - begin);
    return !has_escapes || unescape(out, unescaped);
  }

  bool unescape(std::string_view& string, std::string& out) {
    const std::string_view quoted = text_.substr(at_ - string.size() - 2, string.size() + 2);
    const nlohmann::json parsed = nlohmann::json::parse(quoted, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_string()) return false;
    out = parsed.get_ref<const std::string&>();
    string = out;
    return true;
  }

  bool read_id(uint32_t& id) {
    if (next_is('-')) return false; // and skips spaces
    const size_t begin = at_;
    uint64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && value <= UINT32_MAX)
      value = 10 * value + static_cast<uint64_t>(text_[at_++] - '0');
    id = static_cast<uint32_t>(value);
    const size_t digits = at_ - begin;
    const bool leads_with_zero = digits > 1 && text_[begin] == '0';
    return digits > 0 && !leads_with_zero && value <= UINT32_MAX;
  }

  bool skip_digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }

  bool skip_any_of(std::string_view characters) {
    const bool found = at_ < text_.size() && characters.find(text_[at_]) != characters.npos;
    at_ += found;
    return found;
  }

  bool read_score(double& score) {
    const size_t begin = next_is('-') ? at_++ : at_; // next_is() has skipped spaces
    const size_t whole = at_;
    if (!skip_digits() || (text_[whole] == '0' && at_ > whole + 1)) return false;
    if (skip_any_of(".") && !skip_digits()) return false;
    if (skip_any_of("eE")) {
      skip_any_of("+-");
      if (!skip_digits()) return false;
    }
    return number_from_chars(text_.data() + begin, text_.data() + at_, score).ec == std::errc();
  }

  // A value of any kind, valid or not: the general parser gets it.
  bool skip_value() {
    size_t depth = 0;
    std::string_view string;
    while (at_ < text_.size()) {
      if (next_is('"')) {
        if (!read_string(string, first_)) return false;
        continue;
      }
      if (at_ == text_.size()) return false;
      const char c = text_[at_];
      const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
      if (depth == 0 && (closes || c == ',')) return true;
      depth += opens;
      depth -= closes;
      ++at_;
    }
    return false;
  }

  bool read_model() {
    bool has_vocabulary = false;
    return read_members([&](std::string_view key) {
      if (key == "vocab" && (next_is('{') || next_is('[')))
        return !std::exchange(has_vocabulary, true) &&
               leave_out(next_is('{') ? &TableReader::read_vocabulary : &TableReader::read_scores);
      if (key == "merges" && next_is('['))
        return !std::exchange(document_.has_merges, true) && leave_out(&TableReader::read_merges);
      return skip_value();
    });
  }

  bool leave_out(bool (TableReader::*read)()) {
    rest_.append(text_.substr(copied_, at_ - copied_)).append("null");
    const bool ok = (this->*read)();
    copied_ = at_;
    return ok;
  }

  // The memory of usual tables, from the size of the file, so that they are not copied while they grow. Pages
  // that are not written cost nothing.
  size_t usual_entries() const { return text_.size() / 60; }
  size_t usual_bytes() const { return text_.size() / 5; }

  bool read_vocabulary() {
    document_.vocabulary_shape = JsonDocument::Shape::map;
    document_.vocabulary.reserve(usual_entries(), usual_bytes());
    return read_members([&](std::string_view token) {
      uint32_t id = 0;
      if (!read_id(id)) return false;
      document_.vocabulary.add(token, id);
      return true;
    });
  }

  bool read_scores() {
    document_.vocabulary_shape = JsonDocument::Shape::list;
    return read_items('[', ']', [&] {
      std::string_view token;
      double score = 0;
      if (!take('[') || !read_string(token, first_) || !take(',') || !read_score(score) || !take(']'))
        return false;
      document_.vocabulary.add(token, static_cast<uint32_t>(document_.vocabulary.size()));
      document_.scores.push_back(score);
      return true;
    });
  }

  bool read_merges() {
    document_.merges.list.reserve(usual_entries());
    document_.merges.text.reserve(usual_bytes());
    return read_items('[', ']', [&] {
      std::string_view left, right;
      if (next_is('"')) {
        if (!read_string(left, first_)) return false;
        const size_t space = left.find(' ');
        if (space == left.npos || left.find(' ', space + 1) != left.npos) return false;
        right = left.substr(space + 1);
        left = left.substr(0, space);
      } else if (!take('[') || !read_string(left, first_) || !take(',') || !read_string(right, second_) ||
                 !take(']')) {
        return false;
      }
      document_.merges.add(left, right);
      return true;
    });
  }

  const std::string_view text_;
  JsonDocument& document_;
  size_t at_ = 0;
  size_t copied_ = 0; // of the text, into rest_, without the tables
  std::string rest_;
  std::string first_, second_; // strings without their escapes
};

} // namespace

std::optional<std::string> read_tables(std::string_view text, JsonDocument& document) {
  return TableReader(text, document).run();
}

} // namespace pumice::text
