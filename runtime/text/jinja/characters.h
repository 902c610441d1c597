#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

// Strings as Python sees them: sequences of code points. All text is valid UTF-8.
namespace pumice::text::jinja {

size_t count_characters(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);
std::u32string code_points_of(std::string_view text);
// The byte at which the character `index` begins; the size of the text if it has fewer.
size_t byte_of_character(std::string_view text, size_t index);

// As the members of std::string_view, in a number of steps that is counted.
size_t find(std::string_view text, std::string_view sought);
size_t find_last(std::string_view text, std::string_view sought);

bool is_python_space(char32_t value); // str.isspace
bool is_printable(char32_t value);    // str.isprintable

enum class Side { left, right, both };
// Without the characters of `of` (white space if there is none) at these ends.
std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> of = std::nullopt);
// As str.split: at white space if there is no separator, at most `most` times (-1: no limit).
Items split(std::string_view text, std::optional<std::string_view> separator, Integer most);
Items split_from_right(std::string_view text, std::optional<std::string_view> separator, Integer most);
Items split_lines(std::string_view text, bool keep_ends);
std::string replace(std::string_view text, std::string_view old, std::string_view by, Integer most);

std::string lower(std::string_view text);
std::string upper(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text); // str.title
enum class Letters { lower, upper };
// As str.islower and str.isupper: there is a letter, and none of the other case.
bool is_all(std::string_view text, Letters letters);

} // namespace pumice::text::jinja
