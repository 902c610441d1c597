// Statements: what runs, in which scope, and where its text goes. evaluate.cpp has the expressions.
#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/depth.h"
#include "text/jinja/failure.h"
#include "text/jinja/function.h"
#include "text/jinja/loop.h"
#include "text/jinja/operations.h"
#include "text/jinja/write.h"

namespace pumice::text::jinja {

namespace {

// A macro, with the scope in which it was defined. The scope holds the macro, so it does not hold the scope.
struct Macro : Object {
  Macro(const MacroDefinition& macro, const ScopePointer& around) : definition(macro), scope(around) {}
  std::string type() const override { return "Macro"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    const ScopePointer around = scope.lock();
    if (!around) fail("macro '{}' is called outside of the block that defines it", definition.name);
    return Value(interpreter.call_macro(definition, around, arguments));
  }
  std::optional<Value> attribute(std::string_view name) override {
    return name == "name" ? std::optional(Value(definition.name)) : std::nullopt;
  }

  const MacroDefinition& definition;
  std::weak_ptr<Scope> scope;
};

Value make_macro(const MacroDefinition& definition, const ScopePointer& scope) {
  return Value(std::shared_ptr<Object>(std::make_shared<Macro>(definition, scope)));
}

} // namespace

std::optional<Value> Namespace::attribute(std::string_view name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? std::nullopt : std::optional(found->second);
}

Interpreter::Inner::Inner(Interpreter& interpreter, ScopePointer parent)
    : interpreter_(interpreter), before_(interpreter.scope_) {
  interpreter.scope_ = std::make_shared<Scope>();
  interpreter.scope_->parent = std::move(parent);
}

Interpreter::Interpreter(const Dict& variables, const Options& options)
    : options_(options), budget_(options.steps) {
  const auto globals = std::make_shared<Scope>();
  globals->names = global_functions();
  for (const Dict::Entry& entry : variables.entries())
    globals->names.insert_or_assign(*entry.first.text(), entry.second);
  root_ = std::make_shared<Scope>();
  root_->parent = globals;
  scope_ = root_;
}

Interpreter::~Interpreter() {
  for (const std::shared_ptr<Namespace>& names : namespaces_) names->attributes.clear();
}

std::shared_ptr<Namespace> Interpreter::make_namespace() {
  charge(8);
  return namespaces_.emplace_back(std::make_shared<Namespace>());
}

Value Interpreter::text(std::string made) const {
  if (made.size() > options_.output) fail("a string is longer than {} bytes", options_.output);
  return Value(std::move(made));
}

std::string Interpreter::run(const Statements& statements) {
  return captured([&] { run_all(statements); });
}

void Interpreter::write(std::string_view text) {
  charge_text(text.size());
  if (text.size() > options_.output - output_->size())
    fail("the text is longer than {} bytes", options_.output);
  *output_ += text;
}

template <class Run>
std::string Interpreter::captured(const Run& run) {
  std::string text;
  std::string* const before = std::exchange(output_, &text);
  run(); // after a failure nothing is written any more
  output_ = before;
  return text;
}

Interpreter::Flow Interpreter::run_all(const Statements& statements) {
  for (const Statement& statement : statements) {
    if (const Flow flow = run_one(statement); flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::run_one(const Statement& statement) try {
  charge(1);
  const Depth depth(*this);
  return dispatch(statement);
} catch (Failure& failure) {
  if (failure.line == 0) failure.line = statement.line;
  if (failure.construct.empty()) failure.construct = statement.construct();
  throw;
}

Interpreter::Flow Interpreter::dispatch(const Statement& statement) {
  switch (statement.kind) {
  case Statement::Kind::data:
    write(statement.text);
    break;
  case Statement::Kind::output:
    write(str(evaluate(*statement.value)));
    break;
  case Statement::Kind::condition:
    return condition(statement);
  case Statement::Kind::loop:
    loop(statement, evaluate(*statement.value), 0, scope_);
    break;
  case Statement::Kind::assign:
    assign(*statement.target, evaluate(*statement.value));
    break;
  case Statement::Kind::capture:
    return capture(statement);
  case Statement::Kind::macro:
    scope_->names.insert_or_assign(statement.macro->name, make_macro(*statement.macro, scope_));
    break;
  case Statement::Kind::call:
    call_block(statement);
    break;
  case Statement::Kind::filter:
    return filter_block(statement);
  case Statement::Kind::with:
    return with(statement);
  case Statement::Kind::generation: {
    const Inner inner(*this, scope_);
    return run_all(statement.body);
  }
  case Statement::Kind::block: {
    const Inner inner(*this, root_);
    return run_all(statement.body);
  }
  case Statement::Kind::leave:
    return Flow::leave;
  case Statement::Kind::next:
    return Flow::next;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::condition(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (!branch.test || is_true(evaluate(*branch.test))) return run_all(branch.body);
  }
  return Flow::normal;
}

Value Interpreter::filtered(const Expression* filters, Value value) {
  if (!filters) return value;
  const Value inner = filtered(filters->parts[0].get(), std::move(value));
  return filter(filters->name, inner, arguments(filters->arguments));
}

Interpreter::Flow Interpreter::capture(const Statement& statement) {
  Flow flow = Flow::normal;
  std::string text = captured([&] {
    const Inner inner(*this, scope_);
    flow = run_all(statement.body);
  });
  if (flow != Flow::normal) return flow; // out of the loop around it, without the text
  assign(*statement.target, filtered(statement.value.get(), Value(std::move(text))));
  return flow;
}

Interpreter::Flow Interpreter::filter_block(const Statement& statement) {
  Flow flow = Flow::normal;
  std::string text = captured([&] {
    const Inner inner(*this, scope_);
    flow = run_all(statement.body);
  });
  if (flow == Flow::normal) write(str(filtered(statement.value.get(), Value(std::move(text)))));
  return flow;
}

Interpreter::Flow Interpreter::with(const Statement& statement) {
  const Items values = all(statement.values); // before any of the names is set
  const Inner inner(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) assign(*statement.targets[i], values[i]);
  return run_all(statement.body);
}

void Interpreter::call_block(const Statement& statement) {
  const Value caller = make_macro(*statement.macro, scope_);
  write(str(called(*statement.value, &caller)));
}

std::string Interpreter::call_macro(const MacroDefinition& macro, const ScopePointer& around,
                                    const Arguments& given) {
  const Inner inner(*this, around);
  const Depth depth(*this);
  const size_t count = macro.parameters.size();
  charge(4 * count + count * given.named.size());
  Items rest;
  for (size_t i = count; i < given.positional.size(); ++i) rest.push_back(given.positional[i]);
  Dict named;
  for (const auto& [name, value] : given.named) named.set(Value(name), value);
  auto& names = scope_->names;
  bool takes_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    const Value* value =
        i < given.positional.size() ? &given.positional[i] : named.find(Value(parameter.name));
    if (i < given.positional.size() && named.find(Value(parameter.name)))
      fail("macro '{}' takes no keyword argument '{}'", macro.name, parameter.name);
    takes_caller |= parameter.name == "caller";
    if (value) {
      names.insert_or_assign(parameter.name, *value);
    } else if (parameter.otherwise) {
      names.insert_or_assign(parameter.name, evaluate(*parameter.otherwise));
    } else {
      names.insert_or_assign(parameter.name,
                             undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
  }
  Dict left;
  for (const auto& [name, value] : given.named) {
    const bool known = std::any_of(
        macro.parameters.begin(), macro.parameters.end(),
        [&, &given_name = name](const Parameter& parameter) { return parameter.name == given_name; });
    const bool caller = macro.uses_caller && !takes_caller && name == "caller";
    if (caller) names.insert_or_assign("caller", value);
    if (!known && !caller) left.set(Value(name), value);
  }
  if (macro.uses_caller && !names.contains("caller")) names["caller"] = undefined("No caller defined");
  if (!macro.uses_kwargs && left.size() > 0) {
    fail("macro '{}' takes no keyword argument {}", macro.name, repr(left.entries()[0].first));
  }
  if (!macro.uses_varargs && !rest.empty())
    fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
  if (macro.uses_kwargs) names["kwargs"] = make_dict(std::move(left));
  if (macro.uses_varargs) names["varargs"] = make_tuple(std::move(rest));
  return captured([&] { run_all(macro.body); });
}

std::string Interpreter::run_loop(const Statement& statement, const Value& over, int depth,
                                  const ScopePointer& around) {
  const Depth nesting(*this);
  return captured([&] { loop(statement, over, depth, around); });
}

void Interpreter::loop(const Statement& statement, const Value& over, int depth, const ScopePointer& around) {
  Items items = iterate(over);
  Loop::Accepts accepts;
  if (statement.test) {
    accepts = [&](const Value& item) {
      const Inner inner(*this, around);
      assign(*statement.target, item);
      return is_true(evaluate(*statement.test));
    };
  }
  const auto running = std::make_shared<Loop>(std::move(items), accepts, statement, depth, around);
  const auto end = [](Loop* ended) { ended->end(); };
  const std::unique_ptr<Loop, decltype(end)> ending(running.get(), end); // after a failure too
  bool any = false;
  while (running->advance()) {
    any = true;
    const Inner inner(*this, around);
    scope_->names.insert_or_assign("loop", Value(std::shared_ptr<Object>(running)));
    assign(*statement.target, running->current());
    charge(1);
    if (run_all(statement.body) == Flow::leave) break;
  }
  if (any || statement.otherwise.empty()) return;
  const Inner inner(*this, around);
  run_all(statement.otherwise);
}

void Interpreter::assign(const Expression& target, const Value& value) {
  if (target.kind == Expression::Kind::variable) {
    scope_->names.insert_or_assign(target.name, value);
  } else if (target.kind == Expression::Kind::attribute) {
    auto* names = dynamic_cast<Namespace*>(evaluate(*target.parts[0]).object());
    if (!names) fail("cannot assign attribute on non-namespace object");
    names->attributes.insert_or_assign(target.name, value);
  } else {
    const Items items = iterate(value);
    const size_t count = target.parts.size();
    if (items.size() > count) fail("too many values to unpack (expected {})", count);
    if (items.size() < count) fail("not enough values to unpack (expected {}, got {})", count, items.size());
    for (size_t i = 0; i < count; ++i) assign(*target.parts[i], items[i]);
  }
}

const Value* Interpreter::find(std::string_view name) const {
  for (const Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    charge(1);
    if (const auto found = scope->names.find(name); found != scope->names.end()) return &found->second;
  }
  return nullptr;
}

} // namespace pumice::text::jinja
