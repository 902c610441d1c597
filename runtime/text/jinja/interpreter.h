#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/syntax.h"
#include "text/jinja/template.h"
#include "text/jinja/value.h"

namespace pumice::text::jinja {

struct Scope {
  std::map<std::string, Value, std::less<>> names;
  std::shared_ptr<Scope> parent; // null for the template's own
};
using ScopePointer = std::shared_ptr<Scope>;

struct Namespace : Object {
  std::map<std::string, Value, std::less<>> attributes;
  std::string type() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) override;
};

// A loop while it runs: what a template sees as `loop`.
class Loop;

// Renders a template once.
class Interpreter {
public:
  Interpreter(const Dict& variables, const Options& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string run(const Statements& statements);

  Value text(std::string made) const; // bounds its length

  Value call(const Value& function, const Arguments& arguments);
  Value filter(std::string_view name, const Value& value, const Arguments& arguments);
  bool test(std::string_view name, const Value& value, const Arguments& arguments);
  std::string call_macro(const MacroDefinition& macro, const ScopePointer& around,
                         const Arguments& arguments);
  std::string run_loop(const Statement& statement, const Value& over, int depth, const ScopePointer& around);
  std::shared_ptr<Namespace> make_namespace();
  const std::tm& now() const { return options_.now; }

private:
  enum class Flow { normal, leave, next };
  class Depth;

  // A scope for as long as this lives.
  class Inner {
  public:
    Inner(Interpreter& interpreter, ScopePointer parent);
    ~Inner() { interpreter_.scope_ = std::move(before_); }

  private:
    Interpreter& interpreter_;
    ScopePointer before_;
  };

  Flow run_all(const Statements& statements);
  Flow run_one(const Statement& statement);
  Flow dispatch(const Statement& statement);
  Flow condition(const Statement& statement);
  Flow filter_block(const Statement& statement);
  Flow with(const Statement& statement);
  Flow capture(const Statement& statement);
  void call_block(const Statement& statement);
  void loop(const Statement& statement, const Value& over, int depth, const ScopePointer& around);
  void write(std::string_view text);
  // What `run` writes, as text of its own.
  template <class Run>
  std::string captured(const Run& run);
  Value filtered(const Expression* filters, Value value);

  void assign(const Expression& target, const Value& value);
  const Value* find(std::string_view name) const;

  Value evaluate(const Expression& expression);
  Value compute(const Expression& expression);
  Value variable(const Expression& expression);
  Items all(const std::vector<ExpressionPointer>& expressions);
  Value dict(const Expression& expression);
  Value item(const Expression& expression);
  Value logical(const Expression& expression);
  Value comparison(const Expression& expression);
  Value concatenation(const Expression& expression);
  Value conditional(const Expression& expression);
  Value called(const Expression& expression, const Value* caller);
  Arguments arguments(const std::vector<Argument>& written);

  const Options& options_;
  Budget budget_;
  size_t depth_ = 0;
  ScopePointer root_, scope_;
  std::string* output_ = nullptr;
  std::vector<std::shared_ptr<Namespace>> namespaces_; // emptied at the end: they can hold each other
};

std::map<std::string, Value, std::less<>> global_functions();

} // namespace pumice::text::jinja
