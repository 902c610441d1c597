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
  for (std::string line; std::getline(all, line);) {
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    result += width > 0 && line.size() > width ? wrapped(line.substr(indent), indent, width) : line + "\n";
  }
  return result;
}

namespace {

// The space at which a line of at most `width` columns ends; npos if the whole one fits.
size_t end_of_line(const std::string& text, size_t width) {
  const size_t words = text.find_first_not_of(' ');
  size_t last = std::string::npos, columns = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ' && at > words) last = at;
    columns += (text[at] & 0xc0) != 0x80; // a character of UTF-8
    if (columns > width && last != std::string::npos) return last;
  }
  return std::string::npos;
}

} // namespace

std::string folded(const std::string& lines, size_t indent, size_t width) {
  std::string result;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    while (width > 0) {
      const size_t end = end_of_line(line, width);
      if (end == std::string::npos) break;
      result += line.substr(0, line.find_last_not_of(' ', end) + 1) + "\n";
      line = std::string(indent, ' ') + line.substr(line.find_first_not_of(' ', end));
    }
    result += line + "\n";
  }
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
