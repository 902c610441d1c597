#pragma once

#include "text/jinja/failure.h"
#include "text/jinja/interpreter.h"

namespace pumice::text::jinja {

// Counts how deep the interpreter is in itself, so that it ends before the stack does.
class Interpreter::Depth {
public:
  explicit Depth(Interpreter& interpreter) : interpreter_(interpreter) {
    if (interpreter.depth_ >= interpreter.options_.depth)
      fail("calls and blocks nest more than {} deep", interpreter.options_.depth);
    ++interpreter.depth_;
  }
  ~Depth() { --interpreter_.depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

private:
  Interpreter& interpreter_;
};

} // namespace pumice::text::jinja
