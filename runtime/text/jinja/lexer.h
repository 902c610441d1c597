#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace pumice::text::jinja {

enum class TokenKind {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,
  number,
  symbol,
  end
};

struct Token {
  TokenKind kind;
  int line;
  std::string text; // data, a name, a symbol, or a string with its escapes resolved
  Value number;     // an integer or a float

  bool is_symbol(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

// Splits a template, with trim_blocks and lstrip_blocks, as chat templates are meant to be read. Comments are
// left out. The last token is `end`.
std::vector<Token> split_template(std::string_view source);

} // namespace pumice::text::jinja
