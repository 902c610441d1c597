#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/regex.h"
#include "text/unicode/unicode.h"

namespace pumice::text {

// A text and the pieces into which it has been cut so far, in order. The model works on one piece at a time.
struct Pieces {
  std::string text; // escaped UTF-8
  std::vector<Span> spans;
  bool at_start = false; // `text` begins where the caller's whole text begins

  explicit Pieces(std::string whole, bool starts_text = false)
      : text(std::move(whole)), at_start(starts_text) {
    if (!text.empty()) spans.push_back({0, text.size()});
  }

  std::string_view view(Span span) const {
    return std::string_view(text).substr(span.begin, span.end - span.begin);
  }
};

// What happens to the delimiters at which a piece is split.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// Cuts `length` bytes at `delimiters`, which are in order and do not overlap. With `invert`, the text between
// them is the delimiter. Appends the resulting spans, moved by `offset`, without empty ones.
void append_split(std::vector<Span>& out, const std::vector<Span>& delimiters, size_t length, size_t offset,
                  SplitBehavior behavior, bool invert);

// Splits every piece at the delimiters that `find` gives for it.
template <class Find>
void split_pieces(Pieces& pieces, SplitBehavior behavior, bool invert, const Find& find) {
  std::vector<Span> out;
  for (Span span : pieces.spans) {
    append_split(out, find(pieces.view(span)), span.end - span.begin, span.begin, behavior, invert);
  }
  pieces.spans = std::move(out);
}

// The characters for which `is_delimiter` holds.
template <class Predicate>
std::vector<Span> find_characters(std::string_view escaped, Predicate is_delimiter) {
  std::vector<Span> found;
  for (size_t at = 0; at < escaped.size();) {
    CodePoint point = first_code_point(escaped.substr(at));
    if (is_delimiter(point.value)) found.push_back({at, at + point.length});
    at += point.length;
  }
  return found;
}

} // namespace pumice::text
