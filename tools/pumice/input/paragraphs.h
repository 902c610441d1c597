#pragma once

#include <string>
#include <string_view>

// Texts whose lines end where the page did.
namespace pumice::command {

inline constexpr std::string_view white_space = " \t\r\n";

bool is_blank(std::string_view text); // nothing but white space

// Whether what follows a text is set apart by a space: not in languages that are written without.
bool needs_space(std::string_view text);

// Lets a paragraph go on with its next line, without the white space between them.
void append_line(std::string& paragraph, std::string_view line);

} // namespace pumice::command
