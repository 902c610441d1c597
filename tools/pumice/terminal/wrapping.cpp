#include "terminal/wrapping.h"

#include <algorithm>
#include <sstream>

#include "terminal/terminal.h"

namespace pumice::command {

std::string wrapped(const std::string& text, size_t indent, size_t width) {
  std::string result, line;
  const auto end_line = [&] {
    if (!line.empty()) result += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    if (paragraph.starts_with(' ') || paragraph.empty()) {
      result += paragraph.empty() ? "\n" : std::string(indent, ' ') + paragraph + "\n";
      continue;
    }
    std::istringstream words(paragraph);
    for (std::string word; words >> word;) {
      if (!line.empty() && indent + line.size() + 1 + word.size() > width) end_line();
      line += (line.empty() ? "" : " ") + word;
    }
    end_line();
  }
  return result;
}

std::string fitted(const std::string& lines, size_t width) {
  std::string result;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);)
    result += width > 0 && line.size() > width ? wrapped(line, 0, width) : line + "\n";
  return result;
}

std::string listed(const std::string& heading, const std::string& text) {
  constexpr size_t least = 20; // columns that are enough for a text
  const size_t columns = stdout_columns();
  if (columns == 0 || heading.size() + text.size() <= columns) return heading + text + "\n";
  if (columns >= heading.size() + least)
    return heading + wrapped(text, heading.size(), columns).substr(heading.size());
  const size_t begin = std::min(heading.find_first_not_of(' '), heading.size());
  return heading.substr(0, heading.find_last_not_of(' ') + 1) + "\n" + wrapped(text, begin + 2, columns);
}

} // namespace pumice::command
