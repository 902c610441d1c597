#pragma once

#include <string>

#include "api/pumice.h"
#include "step/runner.h"

namespace pumice::api {

inline ExternalBuffer external_buffer(const pumice_buffer& buffer) {
  return {buffer.buffer, buffer.offset, buffer.bytes};
}

// Checks that a range of the caller's buffer has at least so many bytes.
inline Status check_buffer(const pumice_buffer& buffer, uint64_t bytes, const char* name) {
  if (!buffer.buffer) return {};
  if (buffer.offset % 4 != 0) {
    return Error{Code::invalid_argument, std::string(name) + ".offset is " + std::to_string(buffer.offset) +
                                             ": expected a multiple of 4"};
  }
  if (buffer.bytes >= bytes) return {};
  return Error{Code::invalid_argument, std::string(name) + ".bytes is " + std::to_string(buffer.bytes) +
                                           ": expected at least " + std::to_string(bytes)};
}

} // namespace pumice::api
