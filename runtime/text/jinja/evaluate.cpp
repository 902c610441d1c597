// Expressions: their values. interpreter.cpp has the statements.
#include <algorithm>

#include "text/jinja/depth.h"
#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operations.h"
#include "text/jinja/write.h"

namespace pumice::text::jinja {

Value Interpreter::evaluate(const Expression& expression) try {
  charge(1);
  const Depth depth(*this);
  return compute(expression);
} catch (Failure& failure) {
  if (failure.line == 0) failure.line = expression.line;
  throw;
}

Value Interpreter::compute(const Expression& expression) {
  using Kind = Expression::Kind;
  switch (expression.kind) {
  case Kind::constant:
    return expression.value;
  case Kind::variable:
    return variable(expression);
  case Kind::list:
    return make_list(all(expression.parts));
  case Kind::tuple:
    return make_tuple(all(expression.parts));
  case Kind::dict:
    return dict(expression);
  case Kind::attribute:
    return attribute(evaluate(*expression.parts[0]), expression.name);
  case Kind::item:
    return item(expression);
  case Kind::slice:
    fail("a slice stands where Python allows none");
  case Kind::call:
    return called(expression, nullptr);
  case Kind::filter: {
    const Value value = evaluate(*expression.parts[0]);
    return filter(expression.name, value, arguments(expression.arguments));
  }
  case Kind::test: {
    const Value value = evaluate(*expression.parts[0]);
    return Value(test(expression.name, value, arguments(expression.arguments)));
  }
  case Kind::unary:
    return unary(expression.name, evaluate(*expression.parts[0]));
  case Kind::binary: {
    const Value left = evaluate(*expression.parts[0]);
    return binary(*this, expression.name, left, evaluate(*expression.parts[1]));
  }
  case Kind::logical:
    return logical(expression);
  case Kind::comparison:
    return comparison(expression);
  case Kind::concatenate:
    return concatenation(expression);
  case Kind::conditional:
    return conditional(expression);
  }
  return {};
}

Value Interpreter::variable(const Expression& expression) {
  if (const Value* found = find(expression.name)) return *found;
  return undefined(fmt::format("'{}' is undefined", expression.name));
}

Items Interpreter::all(const std::vector<ExpressionPointer>& expressions) {
  Items items;
  for (const ExpressionPointer& expression : expressions) items.push_back(evaluate(*expression));
  return items;
}

Value Interpreter::dict(const Expression& expression) {
  Dict made;
  for (size_t i = 0; i < expression.parts.size(); i += 2) {
    const Value key = evaluate(*expression.parts[i]);
    made.set(key, evaluate(*expression.parts[i + 1]));
  }
  return make_dict(std::move(made));
}

Value Interpreter::item(const Expression& expression) {
  const Value value = evaluate(*expression.parts[0]);
  const Expression& index = *expression.parts[1];
  if (index.kind != Expression::Kind::slice) return element(value, evaluate(index));
  const auto bound = [&](size_t part) { return index.parts[part] ? evaluate(*index.parts[part]) : Value(); };
  const Value start = bound(0), stop = bound(1), step = bound(2);
  return slice(value, start, stop, step);
}

Value Interpreter::logical(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  if (is_true(left) == (expression.name == "or")) return left;
  return evaluate(*expression.parts[1]);
}

Value Interpreter::comparison(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = evaluate(*expression.parts[i + 1]);
    if (!compare(expression.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::concatenation(const Expression& expression) {
  std::string joined;
  for (const ExpressionPointer& part : expression.parts) {
    const std::string added = str(evaluate(*part));
    charge_text(added.size());
    joined += added;
    if (joined.size() > options_.output) fail("a string is longer than {} bytes", options_.output);
  }
  return text(std::move(joined));
}

Value Interpreter::conditional(const Expression& expression) {
  if (is_true(evaluate(*expression.parts[1]))) return evaluate(*expression.parts[0]);
  if (expression.parts[2]) return evaluate(*expression.parts[2]);
  return undefined("the inline if-expression evaluated to false and no else section was defined");
}

Arguments Interpreter::arguments(const std::vector<Argument>& written) {
  Arguments made;
  for (const Argument& argument : written) {
    Value value = evaluate(*argument.value);
    if (argument.kind == Argument::Kind::positional) {
      made.positional.push_back(std::move(value));
    } else if (argument.kind == Argument::Kind::named) {
      made.named.emplace_back(argument.name, std::move(value));
    } else if (argument.kind == Argument::Kind::spread_items) {
      for (Value& item : iterate(value)) made.positional.push_back(std::move(item));
    } else {
      const Dict* dict = value.dict();
      if (!dict) fail("the argument after ** must be a mapping, not {}", type_name(value));
      for (const auto& [key, item] : dict->entries()) {
        if (!key.text()) fail("keywords must be strings");
        made.named.emplace_back(*key.text(), item);
      }
    }
  }
  charge(made.positional.size() + made.named.size() * made.named.size());
  for (size_t i = 1; i < made.named.size(); ++i) {
    const auto same = [&](const auto& other) { return other.first == made.named[i].first; };
    const auto end = made.named.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find_if(made.named.begin(), end, same) != end)
      fail("got multiple values for keyword argument '{}'", made.named[i].first);
  }
  return made;
}

Value Interpreter::called(const Expression& expression, const Value* caller) {
  const Value function = evaluate(*expression.parts[0]);
  Arguments given = arguments(expression.arguments);
  if (caller) given.named.emplace_back("caller", *caller);
  return call(function, given);
}

Value Interpreter::call(const Value& function, const Arguments& given) {
  need_defined(function);
  Object* object = function.object();
  if (!object) fail("'{}' object is not callable", type_name(function));
  return object->call(*this, given);
}

} // namespace pumice::text::jinja
