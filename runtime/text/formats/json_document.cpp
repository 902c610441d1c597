#include "text/formats/json_document.h"

#include <cmath>

#include <fmt/format.h>

#include "text/formats/json_tables.h"

namespace pumice::text {

namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;

// Receives the parser's events and tracks the section of the document to which they belong. A function that
// returns false stops the parser.
class Handler {
public:
  Handler(JsonDocument& document, const std::string& file) : document_(document), file_(file) {}

  Error error = {Code::invalid_file, ""};

  bool null() { return value(json(nullptr)); }
  bool boolean(bool v) { return value(json(v)); }
  bool number_integer(json::number_integer_t v) { return number(json(v), static_cast<double>(v)); }
  bool number_unsigned(json::number_unsigned_t v) { return number(json(v), static_cast<double>(v)); }
  bool number_float(json::number_float_t v, const std::string&) { return number(json(v), v); }
  bool binary(json::binary_t&) { return fail("", "expected text", "binary data"); }

  bool string(std::string& v) {
    switch (section_) {
    case Section::none:
      return value(json(std::move(v)));
    case Section::vocabulary:
      return vocabulary_string(v);
    case Section::merges:
      return merges_string(v);
    }
    return false;
  }

  bool key(std::string& k) {
    key_ = std::move(k);
    if (section_ == Section::none) keys_.back() = key_;
    return true;
  }

  bool start_object(size_t) {
    if (section_ != Section::none) return unexpected("an object");
    if (at_vocabulary()) {
      document_.vocabulary_shape = JsonDocument::Shape::map;
      return enter(Section::vocabulary);
    }
    return open(json::object());
  }

  bool start_array(size_t) {
    if (section_ != Section::none) return start_inner_array();
    if (at_vocabulary()) {
      document_.vocabulary_shape = JsonDocument::Shape::list;
      return enter(Section::vocabulary);
    }
    if (in_model() && keys_.back() == "merges") {
      document_.has_merges = true;
      return enter(Section::merges);
    }
    return open(json::array());
  }

  bool end_object() { return end(); }
  bool end_array() { return section_ != Section::none && inner_ ? end_inner_array() : end(); }

  bool parse_error(size_t position, const std::string&, const json::exception& reason) {
    error.message =
        fmt::format("{}: not valid JSON at byte {} of the file: {}", file_, position, reason.what());
    return false;
  }

private:
  enum class Section { none, vocabulary, merges };

  bool in_model() const { return keys_.size() == 2 && keys_[0] == "model" && open_[0]->is_object(); }
  bool at_vocabulary() const { return in_model() && keys_.back() == "vocab"; }

  bool enter(Section section) {
    section_ = section;
    inner_ = false;
    return true;
  }

  std::string where() const {
    if (section_ == Section::none) return fmt::format("{}", fmt::join(keys_, "."));
    if (section_ == Section::merges) return fmt::format("model.merges[{}]", document_.merges.list.size());
    if (document_.vocabulary_shape == JsonDocument::Shape::map)
      return fmt::format("model.vocab[\"{}\"]", key_);
    return fmt::format("model.vocab[{}]", document_.vocabulary.size());
  }

  bool fail(std::string_view field, std::string_view expected, std::string_view found) {
    error.message = fmt::format("{}: {}: {}, found {}", file_, field, expected, found);
    return false;
  }

  bool unexpected(std::string_view found) {
    bool map = document_.vocabulary_shape == JsonDocument::Shape::map;
    std::string_view expected = section_ == Section::merges ? R"(expected "a b" or ["a", "b"])"
                                : map                       ? "expected an id from 0 to 4294967295"
                                                            : "expected [\"token\", score]";
    return fail(where(), expected, found);
  }

  // The tree.

  bool value(json v) {
    if (section_ != Section::none) return unexpected(v.dump());
    place(std::move(v));
    return true;
  }

  json* place(json v) {
    if (open_.empty()) return &(document_.tree = std::move(v));
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    return &(parent[key_] = std::move(v));
  }

  bool open(json v) {
    if (open_.size() == kMaxDepth) {
      return fail(where(), fmt::format("expected nesting of at most {}", kMaxDepth), "more");
    }
    open_.push_back(place(std::move(v)));
    keys_.emplace_back();
    return true;
  }

  bool end() {
    if (section_ != Section::none) {
      section_ = Section::none;
      return true;
    }
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  // The vocabulary and the merges.

  bool number(json v, double as_double) {
    if (section_ != Section::vocabulary) return value(std::move(v));
    if (document_.vocabulary_shape == JsonDocument::Shape::map) {
      if (!v.is_number_unsigned() || v.get<uint64_t>() > UINT32_MAX) return unexpected(v.dump());
      document_.vocabulary.add(key_, v.get<uint32_t>());
      return true;
    }
    if (!inner_ || strings_ != 1 || has_score_ || !std::isfinite(as_double)) return unexpected(v.dump());
    has_score_ = true;
    score_ = as_double;
    return true;
  }

  bool vocabulary_string(const std::string& v) {
    if (document_.vocabulary_shape == JsonDocument::Shape::map || !inner_ || strings_ != 0)
      return unexpected(v);
    first_ = v;
    ++strings_;
    return true;
  }

  bool merges_string(const std::string& v) {
    if (inner_) {
      if (strings_ == 2) return unexpected("a third string");
      (strings_++ == 0 ? first_ : second_) = v;
      return true;
    }
    size_t space = v.find(' ');
    if (space == std::string::npos || v.find(' ', space + 1) != std::string::npos) {
      return unexpected(fmt::format("\"{}\"", v));
    }
    document_.merges.add(std::string_view(v).substr(0, space), std::string_view(v).substr(space + 1));
    return true;
  }

  bool start_inner_array() {
    bool map = section_ == Section::vocabulary && document_.vocabulary_shape == JsonDocument::Shape::map;
    if (inner_ || map) return unexpected("an array");
    inner_ = true;
    strings_ = 0;
    has_score_ = false;
    return true;
  }

  bool end_inner_array() {
    if (section_ == Section::merges) {
      if (strings_ != 2) return unexpected(fmt::format("{} strings", strings_));
      document_.merges.add(first_, second_);
    } else {
      if (strings_ != 1 || !has_score_) return unexpected("less");
      document_.vocabulary.add(first_, static_cast<uint32_t>(document_.vocabulary.size()));
      document_.scores.push_back(score_);
    }
    inner_ = false;
    return true;
  }

  JsonDocument& document_;
  const std::string& file_;
  std::vector<json*> open_;       // the open objects and arrays, outermost first
  std::vector<std::string> keys_; // the current key in each of them
  std::string key_;
  Section section_ = Section::none;
  bool inner_ = false; // inside an array [...] within a section
  int strings_ = 0;    // how many the inner array has had
  bool has_score_ = false;
  double score_ = 0;
  std::string first_, second_;
};

Result<JsonDocument> parse(std::string_view text, JsonDocument document, const std::string& file) {
  Handler handler(document, file);
  bool ok = false;
  try {
    ok = json::sax_parse(text.begin(), text.end(), &handler);
  } catch (const json::exception& e) {
    handler.error.message = fmt::format("{}: not valid JSON: {}", file, e.what());
  }
  if (!ok) return std::move(handler.error);
  return document;
}

} // namespace

Result<JsonDocument> parse_document(std::string_view text, const std::string& file) {
  JsonDocument tables;
  if (const std::optional<std::string> rest = read_tables(text, tables)) {
    Result<JsonDocument> document = parse(*rest, std::move(tables), file);
    if (document.ok()) return document;
  }
  return parse(text, {}, file); // also for errors, which name places in the whole text
}

} // namespace pumice::text
