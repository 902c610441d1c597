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

// The number in an enumeration of the caller's. C lets it be none of the enumeration's, which C++ must not
// read.
template <class Enumeration>
int number_in(const Enumeration& value) {
  int number = 0;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

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

// The caller's structure has a size that cannot be, or that this version does not know.
Error wrong_size(const char* name, size_t size);
Error too_new(const char* name, size_t size, size_t known);

// Copies a structure of the caller, which may be from an older header: fields that it lacks are zero. Null
// means the defaults.
template <class Structure>
Result<Structure> read(const Structure* from, const char* name) {
  Structure copy = {};
  copy.struct_size = sizeof copy;
  if (!from) return copy;
  const size_t size = from->struct_size;
  if (size < sizeof(size_t)) return wrong_size(name, size);
  if (size > sizeof copy) return too_new(name, size, sizeof copy);
  std::memcpy(&copy, from, size);
  copy.struct_size = sizeof copy;
  return copy;
}

// Copies an element of the caller's array, whose elements may be shorter than this version's: all have the
// size of the first.
template <class Structure>
Result<Structure> read_element(const Structure* array, size_t index, const char* name) {
  const auto* bytes = reinterpret_cast<const std::byte*>(array) + index * array->struct_size;
  return read(reinterpret_cast<const Structure*>(bytes), name);
}

// Copies a structure to the caller's, as many bytes as it has. `to` may be null.
template <class Structure>
Status write(const Structure& from, Structure* to, const char* name) {
  if (!to) return {};
  const size_t size = to->struct_size;
  if (size < sizeof(size_t)) return wrong_size(name, size);
  if (size > sizeof from) return too_new(name, size, sizeof from);
  std::memcpy(to, &from, size);
  to->struct_size = size;
  return {};
}

inline Error null_argument(const char* name) {
  return {Code::invalid_argument, std::string(name) + " is NULL"};
}

// Checks that the caller's array is there and can be as long as its count says.
Status check_array(const void* array, size_t count, size_t element_bytes, const std::string& name);
// Checks the beams of options.
Status check_beams(uint32_t beams);
// Checks a token of the caller's against a vocabulary.
Status check_token(uint32_t token, uint32_t vocabulary, const std::string& name);

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
