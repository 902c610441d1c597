#pragma once

#include <cstddef>

#include "text/jinja/failure.h"

namespace pumice::text::jinja {

// What one render may do, counted in steps. A step is an expression or a statement that is evaluated, a value
// that is copied or compared, or 16 bytes of text that are made or read. So the limit bounds time and memory.
//
// It holds for this thread while it lives. Without one, as while a template is parsed, nothing is counted.
class Budget {
public:
  explicit Budget(size_t steps) : steps_(steps), left_(steps), before_(current) { current = this; }
  ~Budget() { current = before_; }
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static void take(size_t steps) {
    if (!current) return;
    if (steps > current->left_) fail("the template does not end within {} steps", current->steps_);
    current->left_ -= steps;
  }

private:
  static inline constinit thread_local Budget* current = nullptr;
  const size_t steps_;
  size_t left_;
  Budget* const before_;
};

inline void charge(size_t steps) {
  Budget::take(steps);
}
inline void charge_text(size_t bytes) {
  Budget::take(1 + bytes / 16);
}

} // namespace pumice::text::jinja
