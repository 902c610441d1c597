#pragma once

#include <functional>
#include <memory>

#include "text/jinja/interpreter.h"

namespace pumice::text::jinja {

class Loop : public Object, public std::enable_shared_from_this<Loop> {
public:
  using Accepts = std::function<bool(const Value&)>; // the loop's own `if`; empty if it has none

  Loop(Items items, Accepts accepts, const Statement& statement, int depth, const ScopePointer& around)
      : items_(std::move(items)), accepts_(std::move(accepts)), statement_(statement), depth_(depth),
        around_(around) {}

  bool advance(); // to the next item, unless there is none
  const Value& current() const { return current_; }
  // The statement's scope goes, and the object may stay: it keeps its numbers and lets go of all values, so
  // that loops hold neither themselves nor long chains of each other.
  void end();

  std::string type() const override { return "jinja2.runtime.LoopContext"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override;
  std::optional<Value> attribute(std::string_view name) override;
  std::optional<size_t> length() override;

private:
  const Value* peek(); // the item after the current one; null if there is none
  std::optional<Value> method(std::string_view name);

  Items items_;
  Accepts accepts_;
  const Statement& statement_;
  int depth_;
  std::weak_ptr<Scope> around_;
  size_t next_ = 0;  // of items_
  size_t index_ = 0; // of the current item, from 1
  size_t after_ = 0; // items that were left when the loop ended
  bool peeked_ = false;
  Value previous_, current_;
  std::optional<Value> changed_;
};

} // namespace pumice::text::jinja
