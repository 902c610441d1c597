#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "step/check_tokens.h"
#include "text/tokenizer.h"

// Reads and checks the inputs of a subcommand. Errors name the source of the input, what was expected and
// what was found.
namespace pumice::command {

Status check_utf8(std::string_view text, const std::string& source);

// Parses ids such as "1,403,407".
Result<std::vector<uint32_t>> parse_ids(const std::string& text, const std::string& source);
// A text in which \n, \t, \r, \", \' and \\ stand for what they are in C; another backslash stays.
std::string without_escapes(std::string_view text);
// Checks that the context has room for a prompt of `count` tokens and one more token.
Status check_fits(size_t count, uint32_t context, const std::string& source);

// The ids of a prompt. Errors: invalid_argument if it is empty or not UTF-8.
Result<std::vector<uint32_t>> encode_prompt(const Tokenizer& tokenizer, const std::string& text,
                                            const std::string& source);

} // namespace pumice::command
