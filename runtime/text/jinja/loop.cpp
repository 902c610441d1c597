#include "text/jinja/loop.h"

#include "text/jinja/failure.h"
#include "text/jinja/function.h"

namespace pumice::text::jinja {

const Value* Loop::peek() {
  if (!peeked_ && accepts_) {
    while (next_ < items_.size() && !accepts_(items_[next_])) ++next_;
  }
  peeked_ = true;
  return next_ < items_.size() ? &items_[next_] : nullptr;
}

bool Loop::advance() {
  const Value* next = peek();
  if (!next) return false;
  previous_ = std::exchange(current_, *next);
  ++next_;
  ++index_;
  peeked_ = false;
  return true;
}

void Loop::end() {
  accepts_ = nullptr;
  after_ = items_.size() - next_;
  items_.clear();
  next_ = 0;
  previous_ = current_ = Value();
  changed_.reset();
}

std::optional<size_t> Loop::length() {
  if (accepts_) { // all of the rest is tested now, and only once
    Items rest;
    while (const Value* next = peek()) {
      rest.push_back(*next);
      ++next_;
      peeked_ = false;
    }
    items_ = std::move(rest);
    next_ = 0;
    accepts_ = nullptr;
  }
  return index_ + items_.size() - next_ + after_;
}

Value Loop::call(Interpreter& interpreter, const Arguments& arguments) {
  if (!statement_.recursive) fail("The loop must have the 'recursive' marker to be called recursively.");
  const Bound given("loop", arguments, {"iterable"}, 1);
  const ScopePointer around = around_.lock();
  if (!around) fail("the loop has ended");
  return Value(interpreter.run_loop(statement_, given[0], depth_ + 1, around));
}

std::optional<Value> Loop::method(std::string_view name) {
  if (name == "cycle") {
    return make_function("cycle", [index = index_ - 1](Interpreter&, const Arguments& arguments) {
      if (arguments.positional.empty()) fail("no items for cycling given");
      return arguments.positional[index % arguments.positional.size()];
    });
  }
  if (name == "changed") {
    return make_function("changed", [held = weak_from_this()](Interpreter&, const Arguments& arguments) {
      const std::shared_ptr<Loop> loop = held.lock();
      if (!loop) fail("the loop has ended");
      const Value now = make_tuple(arguments.positional);
      const bool same = loop->changed_ && equal(*loop->changed_, now);
      if (!same) loop->changed_ = now;
      return Value(!same);
    });
  }
  return std::nullopt;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index") return Value(index_);
  if (name == "index0") return Value(index_ - 1);
  if (name == "first") return Value(index_ == 1);
  if (name == "last") return Value(peek() == nullptr);
  if (name == "length") return Value(*length());
  if (name == "revindex") return Value(*length() - index_ + 1);
  if (name == "revindex0") return Value(*length() - index_);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") return index_ > 1 ? previous_ : undefined("there is no previous item");
  if (name == "nextitem") {
    const Value* next = peek();
    return next ? *next : undefined("there is no next item");
  }
  return method(name);
}

} // namespace pumice::text::jinja
