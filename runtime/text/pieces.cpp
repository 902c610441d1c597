#include "text/pieces.h"

#include <algorithm>

namespace pumice::text {

namespace {

struct Segment {
  Span span;
  bool is_delimiter;
};

// Delimiters and what is between them, covering all the `length` bytes.
std::vector<Segment> segments_of(const std::vector<Span>& delimiters, size_t length, bool invert) {
  std::vector<Segment> segments;
  segments.reserve(2 * delimiters.size() + 1);
  size_t end = 0;
  for (Span delimiter : delimiters) {
    if (delimiter.begin != end) segments.push_back({{end, delimiter.begin}, invert});
    segments.push_back({delimiter, !invert});
    end = delimiter.end;
  }
  if (end != length) segments.push_back({{end, length}, invert});
  return segments;
}

// Joins each part for which `joins(part, previous)` holds to the span before it.
template <class Joins>
std::vector<Span> joined(const std::vector<Segment>& segments, Joins joins) {
  std::vector<Span> out;
  bool previous = false;
  for (const Segment& segment : segments) {
    if (!out.empty() && joins(segment.is_delimiter, previous)) {
      out.back() = {std::min(out.back().begin, segment.span.begin),
                    std::max(out.back().end, segment.span.end)};
    } else {
      out.push_back(segment.span);
    }
    previous = segment.is_delimiter;
  }
  return out;
}

std::vector<Span> cut(std::vector<Segment> segments, SplitBehavior behavior) {
  auto after_text = [](bool is_delimiter, bool previous) { return is_delimiter && !previous; };
  switch (behavior) {
  case SplitBehavior::removed: {
    std::erase_if(segments, [](const Segment& segment) { return segment.is_delimiter; });
    return joined(segments, [](bool, bool) { return false; });
  }
  case SplitBehavior::isolated:
    return joined(segments, [](bool, bool) { return false; });
  case SplitBehavior::contiguous:
    return joined(segments, [](bool now, bool previous) { return now == previous; });
  case SplitBehavior::merged_with_previous:
    return joined(segments, after_text);
  case SplitBehavior::merged_with_next: {
    std::reverse(segments.begin(), segments.end());
    std::vector<Span> out = joined(segments, after_text);
    std::reverse(out.begin(), out.end());
    return out;
  }
  }
  return {};
}

} // namespace

void append_split(std::vector<Span>& out, const std::vector<Span>& delimiters, size_t length, size_t offset,
                  SplitBehavior behavior, bool invert) {
  for (Span span : cut(segments_of(delimiters, length, invert), behavior)) {
    if (span.begin != span.end) out.push_back({span.begin + offset, span.end + offset});
  }
}

} // namespace pumice::text
