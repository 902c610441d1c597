#include "text/chat/mark_spans.h"

#include <algorithm>
#include <cctype>

#include "text/chat/answer_marks.h"

namespace pumice {

namespace text {

std::vector<MarkSpan> marks_in(std::string_view text) {
  std::vector<MarkSpan> marks;
  for (size_t at = 0; at < text.size();) {
    const size_t length = mark_length(text.substr(at));
    if (length > 0) marks.push_back({at, at + length});
    at += std::max<size_t>(1, length);
  }
  return marks;
}

size_t common_beginning(std::string_view a, std::string_view b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  size_t length = static_cast<size_t>(end - a.begin());
  for (const std::string_view text : {a, b}) {
    for (const MarkSpan& mark : marks_in(text)) {
      if (mark.begin < length && length < mark.end) length = mark.begin;
    }
  }
  return length;
}

size_t common_end(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[a.size() - 1 - length] == b[b.size() - 1 - length])
    ++length;
  for (const std::string_view text : {a, b}) {
    for (const MarkSpan& mark : marks_in(text)) {
      const size_t at = text.size() - length;
      if (mark.begin < at && at < mark.end) length = text.size() - mark.end;
    }
  }
  return length;
}

} // namespace text

namespace {

struct Brackets {
  std::string_view open, close;
};
// That stand around marks beside <>.
constexpr Brackets brackets[] = {{"◁", "▷"},   {"⟨", "⟩"},   {"〈", "〉"}, {"⟦", "⟧"},
                                 {"【", "】"}, {"《", "》"}, {"«", "»"}};

// [TOOL_CALLS], [/THINK], [mind]
size_t square_length(std::string_view text) {
  const size_t begin = text.substr(1).starts_with('/') ? 2 : 1;
  size_t end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_ ", begin);
  if (end == begin) end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin);
  return end != std::string_view::npos && end > begin + 2 && text[end] == ']' ? end + 1 : 0;
}

} // namespace

size_t mark_length(std::string_view text) {
  constexpr size_t longest = 80;
  if (text.starts_with("```")) {
    size_t end = 3;
    while (end < text.size() && (std::isalpha(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    return end;
  }
  if (text.starts_with('[')) return square_length(text);
  for (const Brackets& each : brackets) {
    if (!text.starts_with(each.open)) continue;
    const size_t end = text.substr(0, longest).find(each.close);
    const std::string_view inner = text.substr(0, std::min(end, text.size()));
    return end != std::string_view::npos && inner.find_first_of(" \n") == std::string_view::npos
               ? end + each.close.size()
               : 0;
  }
  if (text.size() < 3 || text[0] != '<') return 0;
  if (text[1] == '<') { // <<call>>
    if (text[2] == '<') return 0;
    const size_t inner = mark_length(text.substr(1));
    return inner > 0 && text.substr(1 + inner).starts_with('>') ? inner + 2 : 0;
  }
  const auto first = static_cast<unsigned char>(text[1]);
  if (!std::isalpha(first) && first != '/' && first != '|' && first < 0x80) return 0;
  const size_t end = text.substr(0, longest).find_first_of("<>\n'{", 1);
  if (end == std::string_view::npos || text[end] != '>') return 0;
  // White space and quotes are for attributes: <invoke name="f">.
  const std::string_view inner = text.substr(1, end - 1);
  if (inner.find_first_of(" \"") != std::string_view::npos && inner.find("=\"") == std::string_view::npos)
    return 0;
  return end + 1;
}

} // namespace pumice
