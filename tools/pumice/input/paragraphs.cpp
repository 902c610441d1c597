#include "input/paragraphs.h"

#include <algorithm>

#include "text/unicode/unicode.h"

namespace pumice::command {

bool is_blank(std::string_view text) {
  return text.find_first_not_of(white_space) == std::string_view::npos;
}

bool needs_space(std::string_view text) {
  if (text.empty()) return false;
  const char32_t last = text::last_code_point(text).value;
  const bool wide = (last >= 0x3000 && last <= 0x30FF) || (last >= 0xFF00 && last <= 0xFFEF);
  return !wide && !text::is_chinese(last);
}

void append_line(std::string& paragraph, std::string_view line) {
  paragraph.resize(paragraph.find_last_not_of(white_space) + 1);
  line.remove_prefix(std::min(line.find_first_not_of(white_space), line.size()));
  if (needs_space(paragraph)) paragraph += ' ';
  paragraph += line;
}

} // namespace pumice::command
