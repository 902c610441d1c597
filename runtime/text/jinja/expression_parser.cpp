#include "text/jinja/expression_parser.h"

#include <algorithm>
#include <array>

#include "text/jinja/failure.h"

namespace pumice::text::jinja {

namespace {

// Of what the parser enters, and of a tree that it builds. Jinja2 itself stops at about a hundred.
constexpr int deepest = 200;

std::vector<ExpressionPointer> parts_of() {
  return {};
}

template <class... T>
std::vector<ExpressionPointer> parts_of(T... part) {
  std::vector<ExpressionPointer> parts;
  (parts.push_back(std::move(part)), ...);
  return parts;
}

std::string unless_empty(std::string_view text, std::string_view otherwise) {
  return std::string(text.empty() ? otherwise : text);
}

} // namespace

ExpressionParser::Nesting::Nesting(ExpressionParser& parser) : parser_(parser) {
  if (++parser_.depth_ <= deepest) return;
  --parser_.depth_; // the destructor of what is not constructed does not run
  parser_.fail_here(fmt::format("the template nests more than {} deep", deepest));
}

void ExpressionParser::fail_here(std::string message) const {
  throw Failure{std::move(message), token().line, {}};
}

std::string ExpressionParser::describe() const {
  switch (token().kind) {
  case TokenKind::data:
    return "text";
  case TokenKind::variable_begin:
    return "{{";
  case TokenKind::variable_end:
    return "}}";
  case TokenKind::block_begin:
    return "{%";
  case TokenKind::block_end:
    return "%}";
  case TokenKind::text:
    return "a string";
  case TokenKind::number:
    return "a number";
  case TokenKind::end:
    return "the end of the template";
  default:
    return unless_empty(token().text, "nothing");
  }
}

bool ExpressionParser::skip_symbol(std::string_view symbol) {
  if (!token().is_symbol(symbol)) return false;
  take();
  return true;
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!token().is_name(name)) return false;
  take();
  return true;
}

void ExpressionParser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_here(fmt::format("expected {}, found {}", symbol, describe()));
}

std::string ExpressionParser::expect_name() {
  if (token().kind != TokenKind::name) fail_here(fmt::format("expected a name, found {}", describe()));
  return take().text;
}

void ExpressionParser::raise(Expression& node) const {
  int highest = 0;
  for (const ExpressionPointer& part : node.parts) highest = std::max(highest, part ? part->height : 0);
  for (const Argument& argument : node.arguments) highest = std::max(highest, argument.value->height);
  node.height = highest + 1;
  if (node.height > deepest) fail_here(fmt::format("an expression nests more than {} deep", deepest));
}

ExpressionPointer ExpressionParser::make(Kind kind, int line, std::string name,
                                         std::vector<ExpressionPointer> parts) const {
  auto node = std::make_unique<Expression>(Expression{kind, line});
  node->name = std::move(name);
  node->parts = std::move(parts);
  raise(*node);
  return node;
}

ExpressionPointer ExpressionParser::expression(bool with_condition) {
  const Nesting nesting(*this);
  const int line = token().line;
  ExpressionPointer value = logical_or();
  while (with_condition && skip_name("if")) {
    ExpressionPointer test = logical_or();
    ExpressionPointer otherwise = skip_name("else") ? expression() : nullptr;
    value =
        make(Kind::conditional, line, "", parts_of(std::move(value), std::move(test), std::move(otherwise)));
  }
  return value;
}

ExpressionPointer ExpressionParser::logical_or() {
  ExpressionPointer value = logical_and();
  while (token().is_name("or")) {
    const int line = take().line;
    value = make(Kind::logical, line, "or", parts_of(std::move(value), logical_and()));
  }
  return value;
}

ExpressionPointer ExpressionParser::logical_and() {
  ExpressionPointer value = logical_not();
  while (token().is_name("and")) {
    const int line = take().line;
    value = make(Kind::logical, line, "and", parts_of(std::move(value), logical_not()));
  }
  return value;
}

ExpressionPointer ExpressionParser::logical_not() {
  if (!token().is_name("not")) return comparison();
  const Nesting nesting(*this);
  const int line = take().line;
  return make(Kind::unary, line, "not", parts_of(logical_not()));
}

ExpressionPointer ExpressionParser::comparison() {
  static constexpr std::array<std::string_view, 6> symbols = {"==", "!=", "<", "<=", ">", ">="};
  const int line = token().line;
  std::vector<ExpressionPointer> parts = parts_of(sum());
  std::vector<std::string> operators;
  while (true) {
    if (token().kind == TokenKind::symbol &&
        std::find(symbols.begin(), symbols.end(), token().text) != symbols.end()) {
      operators.push_back(take().text);
    } else if (skip_name("in")) {
      operators.emplace_back("in");
    } else if (token().is_name("not") && following().is_name("in")) {
      take(), take();
      operators.emplace_back("not in");
    } else {
      break;
    }
    parts.push_back(sum());
  }
  if (operators.empty()) return std::move(parts[0]);
  ExpressionPointer value = make(Kind::comparison, line, "", std::move(parts));
  value->operators = std::move(operators);
  return value;
}

ExpressionPointer ExpressionParser::sum() {
  ExpressionPointer value = concatenation();
  while (token().is_symbol("+") || token().is_symbol("-")) {
    const Token sign = take();
    value = make(Kind::binary, sign.line, sign.text, parts_of(std::move(value), concatenation()));
  }
  return value;
}

ExpressionPointer ExpressionParser::concatenation() {
  const int line = token().line;
  std::vector<ExpressionPointer> parts = parts_of(product());
  while (skip_symbol("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts[0]);
  return make(Kind::concatenate, line, "~", std::move(parts));
}

ExpressionPointer ExpressionParser::product() {
  ExpressionPointer value = power();
  while (token().is_symbol("*") || token().is_symbol("/") || token().is_symbol("//") ||
         token().is_symbol("%")) {
    const Token sign = take();
    value = make(Kind::binary, sign.line, sign.text, parts_of(std::move(value), power()));
  }
  return value;
}

ExpressionPointer ExpressionParser::power() { // from the left, unlike Python's
  ExpressionPointer value = unary(true);
  while (token().is_symbol("**")) {
    const int line = take().line;
    value = make(Kind::binary, line, "**", parts_of(std::move(value), unary(true)));
  }
  return value;
}

ExpressionPointer ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(*this);
  ExpressionPointer value;
  if (token().is_symbol("-") || token().is_symbol("+")) {
    const Token sign = take();
    value = make(Kind::unary, sign.line, sign.text, parts_of(unary(false)));
  } else {
    value = primary(false);
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPointer ExpressionParser::primary(bool attributes) {
  const int line = token().line;
  if (token().kind == TokenKind::name) return named(attributes);
  if (token().kind == TokenKind::number) {
    ExpressionPointer value = make(Kind::constant, line, "", parts_of());
    value->value = take().number;
    return value;
  }
  if (token().kind == TokenKind::text) {
    std::string text;
    while (token().kind == TokenKind::text) text += take().text; // strings side by side are one
    ExpressionPointer value = make(Kind::constant, line, "", parts_of());
    value->value = Value(std::move(text));
    return value;
  }
  if (token().is_symbol("[")) return list();
  if (token().is_symbol("{")) return dict();
  if (!skip_symbol("(")) fail_here(fmt::format("expected an expression, found {}", describe()));
  ExpressionPointer value = expressions(true, {}, true);
  expect_symbol(")");
  return value;
}

ExpressionPointer ExpressionParser::named(bool attributes) {
  const Token name = take();
  const bool yes = name.text == "true" || name.text == "True";
  const bool none = name.text == "none" || name.text == "None";
  if (yes || none || name.text == "false" || name.text == "False") {
    ExpressionPointer value = make(Kind::constant, name.line, "", parts_of());
    value->value = none ? Value() : Value(yes);
    return value;
  }
  for (MacroDefinition* macro : macros_) {
    macro->uses_varargs |= name.text == "varargs";
    macro->uses_kwargs |= name.text == "kwargs";
    macro->uses_caller |= name.text == "caller";
  }
  ExpressionPointer value = make(Kind::variable, name.line, name.text, parts_of());
  if (!attributes || !skip_symbol(".")) return value;
  return make(Kind::attribute, name.line, expect_name(), parts_of(std::move(value)));
}

bool ExpressionParser::at_end_of(std::initializer_list<std::string_view> ends) const {
  if (token().kind == TokenKind::variable_end || token().kind == TokenKind::block_end ||
      token().is_symbol(")"))
    return true;
  return std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return token().is_name(end); });
}

ExpressionPointer ExpressionParser::expressions(bool with_condition,
                                                std::initializer_list<std::string_view> ends,
                                                bool within_parentheses) {
  const int line = token().line;
  std::vector<ExpressionPointer> parts;
  bool tuple = false;
  while (!at_end_of(ends)) {
    parts.push_back(expression(with_condition));
    if (!skip_symbol(",")) break;
    tuple = true;
  }
  if (!tuple && !parts.empty()) return std::move(parts[0]);
  if (!tuple && !within_parentheses) fail_here(fmt::format("expected an expression, found {}", describe()));
  return make(Kind::tuple, line, "", std::move(parts));
}

void ExpressionParser::need_assignable(const Expression& node) const {
  static constexpr std::array<std::string_view, 4> constants = {"true", "false", "none", "True"};
  const bool name = node.kind == Kind::variable || node.kind == Kind::attribute;
  if (!name && node.kind != Kind::tuple) fail_here("cannot assign to this expression");
  if (name && std::find(constants.begin(), constants.end(), node.name) != constants.end())
    fail_here(fmt::format("cannot assign to {}", node.name));
  if (node.kind != Kind::tuple) return;
  for (const ExpressionPointer& part : node.parts) need_assignable(*part);
}

ExpressionPointer ExpressionParser::target(std::initializer_list<std::string_view> ends, bool attributes) {
  const int line = token().line;
  std::vector<ExpressionPointer> parts;
  bool tuple = false;
  while (!at_end_of(ends)) {
    parts.push_back(primary(attributes));
    need_assignable(*parts.back());
    if (!skip_symbol(",")) break;
    tuple = true;
  }
  if (parts.empty()) fail_here(fmt::format("expected a name, found {}", describe()));
  return tuple ? make(Kind::tuple, line, "", std::move(parts)) : std::move(parts[0]);
}

ExpressionPointer ExpressionParser::list() {
  const int line = take().line;
  std::vector<ExpressionPointer> parts;
  while (!token().is_symbol("]")) {
    parts.push_back(expression());
    if (!token().is_symbol("]")) expect_symbol(",");
  }
  take();
  return make(Kind::list, line, "", std::move(parts));
}

ExpressionPointer ExpressionParser::dict() {
  const int line = take().line;
  std::vector<ExpressionPointer> parts;
  while (!token().is_symbol("}")) {
    parts.push_back(expression());
    expect_symbol(":");
    parts.push_back(expression());
    if (!token().is_symbol("}")) expect_symbol(",");
  }
  take();
  return make(Kind::dict, line, "", std::move(parts));
}

ExpressionPointer ExpressionParser::postfix(ExpressionPointer value) {
  while (true) {
    if (token().is_symbol(".") || token().is_symbol("[")) {
      value = subscript(std::move(value));
    } else if (token().is_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPointer ExpressionParser::filters_and_tests(ExpressionPointer value) {
  while (true) {
    if (token().is_symbol("|")) {
      value = filters(std::move(value));
    } else if (token().is_name("is")) {
      value = test(std::move(value));
    } else if (token().is_symbol("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPointer ExpressionParser::subscript(ExpressionPointer value) {
  const Token sign = take();
  if (sign.text == ".") {
    if (token().kind == TokenKind::name)
      return make(Kind::attribute, sign.line, take().text, parts_of(std::move(value)));
    if (token().kind != TokenKind::number || !token().number.integer())
      fail_here(fmt::format("expected a name or an index after the dot, found {}", describe()));
    ExpressionPointer index = make(Kind::constant, sign.line, "", parts_of());
    index->value = take().number;
    return make(Kind::item, sign.line, "", parts_of(std::move(value), std::move(index)));
  }
  std::vector<ExpressionPointer> indices;
  while (!token().is_symbol("]")) {
    if (!indices.empty()) expect_symbol(",");
    indices.push_back(subscribed());
  }
  take();
  ExpressionPointer index =
      indices.size() == 1 ? std::move(indices[0]) : make(Kind::tuple, sign.line, "", std::move(indices));
  return make(Kind::item, sign.line, "", parts_of(std::move(value), std::move(index)));
}

ExpressionPointer ExpressionParser::subscribed() {
  const int line = token().line;
  ExpressionPointer first = token().is_symbol(":") ? nullptr : expression();
  if (!skip_symbol(":")) return first;
  const auto bound = [&]() -> ExpressionPointer {
    return token().is_symbol(":") || token().is_symbol("]") || token().is_symbol(",") ? nullptr
                                                                                      : expression();
  };
  ExpressionPointer second = bound();
  ExpressionPointer third = skip_symbol(":") ? bound() : nullptr;
  return make(Kind::slice, line, "", parts_of(std::move(first), std::move(second), std::move(third)));
}

Argument ExpressionParser::argument() {
  using ArgumentKind = Argument::Kind;
  if (skip_symbol("*")) return {ArgumentKind::spread_items, "", expression()};
  if (skip_symbol("**")) return {ArgumentKind::spread_names, "", expression()};
  if (token().kind != TokenKind::name || !following().is_symbol("="))
    return {ArgumentKind::positional, "", expression()};
  const std::string name = take().text;
  take();
  return {ArgumentKind::named, name, expression()};
}

std::vector<Argument> ExpressionParser::arguments() {
  std::vector<Argument> arguments;
  expect_symbol("(");
  while (!token().is_symbol(")")) {
    arguments.push_back(argument());
    const bool after_name = arguments.size() > 1 && arguments.end()[-2].kind != Argument::Kind::positional;
    if (arguments.back().kind == Argument::Kind::positional && after_name)
      fail_here("an argument without a name follows one with a name");
    if (!token().is_symbol(")")) expect_symbol(",");
  }
  take();
  return arguments;
}

ExpressionPointer ExpressionParser::call(ExpressionPointer value) {
  ExpressionPointer node = make(Kind::call, token().line, "", parts_of(std::move(value)));
  node->arguments = arguments();
  raise(*node);
  return node;
}

ExpressionPointer ExpressionParser::filters(ExpressionPointer value) {
  while (skip_symbol("|")) value = filter(std::move(value));
  return value;
}

ExpressionPointer ExpressionParser::filter(ExpressionPointer value) {
  const int line = token().line;
  ExpressionPointer node = make(Kind::filter, line, expect_name(), parts_of(std::move(value)));
  if (token().is_symbol("(")) node->arguments = arguments();
  raise(*node);
  return node;
}

ExpressionPointer ExpressionParser::test(ExpressionPointer value) {
  const int line = take().line;
  const bool negated = skip_name("not");
  ExpressionPointer node = make(Kind::test, line, expect_name(), parts_of(std::move(value)));
  const bool word = token().is_name("else") || token().is_name("or") || token().is_name("and");
  const bool operand = token().kind == TokenKind::name || token().kind == TokenKind::text ||
                       token().kind == TokenKind::number || token().is_symbol("[") || token().is_symbol("{");
  if (token().is_symbol("(")) {
    node->arguments = arguments();
  } else if (operand && !word) {
    if (token().is_name("is")) fail_here("tests cannot follow each other with is");
    node->arguments.push_back({Argument::Kind::positional, "", postfix(primary(false))});
  }
  raise(*node);
  return negated ? make(Kind::unary, line, "not", parts_of(std::move(node))) : std::move(node);
}

} // namespace pumice::text::jinja
