#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/lexer.h"
#include "text/jinja/syntax.h"

namespace pumice::text::jinja {

// Parses expressions, with Jinja's precedences. The statements' parser builds on it.
class ExpressionParser {
public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

protected:
  using Kind = Expression::Kind;

  // Counts how deep the parser is in itself, and in what it builds.
  class Nesting {
  public:
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser_.depth_; }

  private:
    ExpressionParser& parser_;
  };

  const Token& token() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token take() { return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_[at_]; }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  std::string expect_name();
  [[noreturn]] void fail_here(std::string message) const;
  std::string describe() const; // of the token, for messages

  ExpressionPointer make(Kind kind, int line, std::string name, std::vector<ExpressionPointer> parts) const;
  ExpressionPointer expression(bool with_condition = true);
  // One expression, or several with commas between them as a tuple. Empty only within parentheses.
  ExpressionPointer expressions(bool with_condition, std::initializer_list<std::string_view> ends,
                                bool within_parentheses = false);
  // What `set` and `for` assign to: names, or tuples of them; with `attributes` also NAMESPACE.NAME.
  ExpressionPointer target(std::initializer_list<std::string_view> ends, bool attributes);
  ExpressionPointer filters(ExpressionPointer value); // | name(arguments) ...
  ExpressionPointer filter(ExpressionPointer value);  // name(arguments)

  // The macros around this place, the innermost last.
  std::vector<MacroDefinition*> macros_;

private:
  ExpressionPointer logical_or();
  ExpressionPointer logical_and();
  ExpressionPointer logical_not();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters);
  ExpressionPointer primary(bool attributes);
  ExpressionPointer named(bool attributes);
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer postfix(ExpressionPointer value);
  ExpressionPointer filters_and_tests(ExpressionPointer value);
  ExpressionPointer subscript(ExpressionPointer value);
  ExpressionPointer subscribed();
  ExpressionPointer call(ExpressionPointer value);
  ExpressionPointer test(ExpressionPointer value);
  std::vector<Argument> arguments();
  Argument argument();
  void raise(Expression& node) const;
  void need_assignable(const Expression& node) const;
  bool at_end_of(std::initializer_list<std::string_view> ends) const;

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

} // namespace pumice::text::jinja
