#include "base/guarded.h"

#include <exception>
#include <new>

namespace pumice {

Error error_of_exception() noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return {Code::out_of_memory, "the host has no memory left"};
    } catch (const std::exception& exception) {
      return {Code::internal, exception.what()};
    } catch (...) {
      return {Code::internal, "an exception of an unknown kind"};
    }
  } catch (...) {
    return {Code::out_of_memory,
            "out of memory"}; // so short that a string holds it without memory of its own
  }
}

} // namespace pumice
