#include "text/pieces.h"

#include <algorithm>

namespace pumice::text {

namespace {

struct Part {
  Span span;
  bool is_delimiter;
};

// Delimiters and what is between them, covering all the `length` bytes.
std::vector<Part> parts_of(const std::vector<Span>& delimiters, size_t length, bool invert) {
  std::vector<Part> parts;
  parts.reserve(2 * delimiters.size() + 1);
  size_t end = 0;
  for (Span delimiter : delimiters) {
    if (delimiter.begin != end) parts.push_back({{end, delimiter.begin}, invert});
    parts.push_back({delimiter, !invert});
    end = delimiter.end;
  }
  if (end != length) parts.push_back({{end, length}, invert});
  return parts;
}

// Joins each part for which `joins(part, previous)` holds to the span before it.
template <class Joins>
std::vector<Span> joined(const std::vector<Part>& parts, Joins joins) {
  std::vector<Span> out;
  bool previous = false;
  for (const Part& part : parts) {
    if (!out.empty() && joins(part.is_delimiter, previous)) {
      out.back() = {std::min(out.back().begin, part.span.begin), std::max(out.back().end, part.span.end)};
    } else {
      out.push_back(part.span);
    }
    previous = part.is_delimiter;
  }
  return out;
}

std::vector<Span> cut(std::vector<Part> parts, SplitBehavior behavior) {
  auto after_text = [](bool is_delimiter, bool previous) { return is_delimiter && !previous; };
  switch (behavior) {
  case SplitBehavior::removed: {
    std::erase_if(parts, [](const Part& part) { return part.is_delimiter; });
    return joined(parts, [](bool, bool) { return false; });
  }
  case SplitBehavior::isolated:
    return joined(parts, [](bool, bool) { return false; });
  case SplitBehavior::contiguous:
    return joined(parts, [](bool now, bool previous) { return now == previous; });
  case SplitBehavior::merged_with_previous:
    return joined(parts, after_text);
  case SplitBehavior::merged_with_next: {
    std::reverse(parts.begin(), parts.end());
    std::vector<Span> out = joined(parts, after_text);
    std::reverse(out.begin(), out.end());
    return out;
  }
  }
  return {};
}

} // namespace

void append_split(std::vector<Span>& out, const std::vector<Span>& delimiters, size_t length, size_t offset,
                  SplitBehavior behavior, bool invert) {
  for (Span span : cut(parts_of(delimiters, length, invert), behavior)) {
    if (span.begin != span.end) out.push_back({span.begin + offset, span.end + offset});
  }
}

} // namespace pumice::text
