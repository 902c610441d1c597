#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/jinja/value.h"

// What the parser makes of a template.
namespace pumice::text::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Argument {
  enum class Kind { positional, named, spread_items, spread_names };
  Kind kind;
  std::string name;
  ExpressionPointer value;
};

struct Expression {
  enum class Kind {
    constant,    // value
    variable,    // name
    list,        // parts
    tuple,       // parts
    dict,        // parts: key, value, key, value
    attribute,   // parts[0].name
    item,        // parts[0][parts[1]]
    slice,       // parts[0:1:2], each may be null; inside an item
    call,        // parts[0](arguments)
    filter,      // parts[0] | name(arguments); parts[0] is null at the head of a block's filters
    test,        // parts[0] is name(arguments)
    unary,       // name: -, +, not
    binary,      // name: + - * / // % **
    logical,     // name: and, or; parts
    comparison,  // parts; operators between them
    concatenate, // parts joined with ~
    conditional, // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind;
  int line;
  int height = 1;
  std::string name = {};
  Value value = {};
  std::vector<ExpressionPointer> parts = {};
  std::vector<Argument> arguments = {};
  std::vector<std::string> operators = {};
};

struct Statement;
using Statements = std::vector<Statement>;

struct Parameter {
  std::string name;
  ExpressionPointer otherwise; // its default, or null
};

// What a macro is made of. A call block's body is one too.
struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Statements body;
  // Whether the body names these, which then take the arguments that are left.
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

struct Branch {
  ExpressionPointer test; // null for else
  Statements body;
};

struct Statement {
  enum class Kind {
    data,       // text
    output,     // value
    condition,  // branches
    loop,       // for target in value if test: body, else otherwise
    assign,     // set target = value
    capture,    // set target: body; value is its filters or null
    macro,      // macro
    call,       // value is the call; macro is its caller
    filter,     // value is the filters; body
    with,       // targets, values, body
    generation, // body
    block,      // text is its name; body
    leave,      // break
    next,       // continue
  };
  Kind kind;
  int line;
  std::string text = {};
  ExpressionPointer target = {}, value = {}, test = {};
  std::vector<ExpressionPointer> targets = {}, values = {};
  std::vector<Branch> branches = {};
  std::unique_ptr<MacroDefinition> macro = {};
  Statements body = {}, otherwise = {};
  bool recursive = false;

  std::string construct() const; // as the template writes it, for messages
};

} // namespace pumice::text::jinja
