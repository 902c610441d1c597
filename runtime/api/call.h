#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "api/pumice.h"
#include "base/guarded.h"
#include "base/result.h"

// Helpers that every function of the C interface uses.
namespace pumice::api {

pumice_status to_status(Code code);
Code to_code(pumice_status status);

// Writes an error for the caller, where there is room for it, and returns its status.
pumice_status report(pumice_error* error, pumice_status status, const char* message) noexcept;

// Calls `body`, which returns a Status. Lets no exception out.
template <class Body>
pumice_status call(pumice_error* error, const Body& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return report(error, PUMICE_OK, "");
    return report(error, to_status(status.error().code), status.error().text().c_str());
  } catch (...) {
    const Error thrown = error_of_exception();
    return report(error, to_status(thrown.code), thrown.message.c_str());
  }
}

// Copies a structure of the caller, which may be from an older header: fields that it lacks are zero. Null
// means the defaults.
template <class Structure>
Result<Structure> read(const Structure* given, const char* name) {
  Structure own = {};
  own.struct_size = sizeof own;
  if (!given) return own;
  const size_t size = given->struct_size;
  if (size < sizeof(size_t)) {
    return Error{Code::invalid_argument, std::string(name) +
                                             ".struct_size: expected the structure's size, found " +
                                             std::to_string(size)};
  }
  if (size > sizeof own) {
    return Error{Code::invalid_argument, std::string(name) + ".struct_size: expected at most " +
                                             std::to_string(sizeof own) + ", found " + std::to_string(size) +
                                             ": the library is older than the program's header"};
  }
  std::memcpy(&own, given, size);
  own.struct_size = sizeof own;
  return own;
}

// Copies a structure to the caller's, as many bytes as it has. `to` may be null.
template <class Structure>
Status write(const Structure& own, Structure* to, const char* name) {
  if (!to) return {};
  const size_t size = to->struct_size;
  if (size < sizeof(size_t) || size > sizeof own) {
    return Error{Code::invalid_argument, std::string(name) +
                                             ".struct_size: expected the structure's size, at most " +
                                             std::to_string(sizeof own) + ", found " + std::to_string(size)};
  }
  std::memcpy(to, &own, size);
  to->struct_size = size;
  return {};
}

inline Error null_argument(const char* name) {
  return {Code::invalid_argument, std::string(name) + ": expected one, found a null"};
}

// Writes as many elements as fit, and the number of all to `count`.
template <class Element>
void hand_out(const Element* from, size_t available, Element* to, size_t capacity, size_t* count) {
  if (to && capacity) std::copy_n(from, std::min(available, capacity), to);
  if (count) *count = available;
}

// The same for text, which is always zero-terminated.
void hand_out(const std::string& text, char* to, size_t capacity, size_t* count);

} // namespace pumice::api

#define PUMICE_REQUIRE(argument)                                                                             \
  if (!(argument)) return ::pumice::api::null_argument(#argument)
