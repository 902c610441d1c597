#pragma once

#include <string>

// Lines that fit a terminal.
namespace pumice::command {

// The text in lines of at most `width` columns, each after `indent` spaces. Lines that begin with a space,
// such as examples, stay as they are.
std::string wrapped(const std::string& text, size_t indent, size_t width);

// The same of those lines alone that are longer, each after the spaces that it has; 0: of none.
std::string fitted(const std::string& lines, size_t width);

// Lines with columns, which go on below after `indent` spaces where they are longer than `width`; 0: any are.
std::string folded(const std::string& lines, size_t indent, size_t width);

// A line of standard output: a heading and a text, which goes on below itself in a terminal without room for
// it.
std::string listed(const std::string& heading, const std::string& text);

} // namespace pumice::command
