#pragma once

#include <type_traits>
#include <utility>

#include "base/result.h"

namespace pumice {

// The exception that is being handled, as an Error: out_of_memory for std::bad_alloc, internal for any other.
// Needs no memory to say that there is none.
Error error_of_exception() noexcept;

// Calls `body`, which returns a Status, a Result or nothing. An exception that it throws comes back as an
// Error: for threads and destructors, out of which nothing may be thrown.
template <class Body>
auto guarded(Body&& body) noexcept {
  using Returned = std::invoke_result_t<Body>;
  using Guarded = std::conditional_t<std::is_void_v<Returned>, Status, Returned>;
  try {
    if constexpr (std::is_void_v<Returned>) {
      std::forward<Body>(body)();
      return Guarded();
    } else {
      return Guarded(std::forward<Body>(body)());
    }
  } catch (...) {
    return Guarded(error_of_exception());
  }
}

} // namespace pumice
