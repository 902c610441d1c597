#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace pumice::text::jinja {

// A function that C++ implements.
struct Function : Object {
  using Body = std::function<Value(Interpreter&, const Arguments&)>;

  Function(std::string function_name, Body function_body, std::string python_type = "function")
      : name(std::move(function_name)), body(std::move(function_body)), type_(std::move(python_type)) {}

  std::string type() const override { return type_; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, const Arguments& arguments) override {
    return body(interpreter, arguments);
  }

  std::string name;
  Body body;

private:
  std::string type_;
};

inline Value make_function(std::string name, Function::Body body) {
  return Value(std::shared_ptr<Object>(std::make_shared<Function>(std::move(name), std::move(body))));
}

// The arguments of a call under the names of its parameters.
class Bound {
public:
  // Fails if there are too many, if one is named twice or unknown, or if one of the first `required` is
  // missing.
  Bound(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
        size_t required = 0);

  bool has(size_t index) const { return values_[index] != nullptr; }
  // None if it was not given.
  const Value& operator[](size_t index) const;
  // These fail if it is of another type.
  std::string text(size_t index) const;
  Integer integer(size_t index, Integer otherwise) const;
  bool is_true(size_t index, bool otherwise) const;

private:
  std::string function_;
  std::vector<std::string_view> names_;
  std::vector<const Value*> values_;
};

} // namespace pumice::text::jinja
