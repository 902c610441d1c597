#include "api/call.h"

#include <cstdint>

#include <fmt/format.h>

namespace pumice::api {

namespace {

struct Pair {
  Code code;
  pumice_status status;
};

constexpr Pair pairs[] = {
    {Code::invalid_argument, PUMICE_INVALID_ARGUMENT},
    {Code::not_found, PUMICE_NOT_FOUND},
    {Code::invalid_file, PUMICE_INVALID_FILE},
    {Code::unsupported, PUMICE_UNSUPPORTED},
    {Code::out_of_memory, PUMICE_OUT_OF_MEMORY},
    {Code::device_lost, PUMICE_DEVICE_LOST},
    {Code::cancelled, PUMICE_CANCELLED},
    {Code::io, PUMICE_IO},
    {Code::internal, PUMICE_INTERNAL},
    {Code::not_ready, PUMICE_NOT_READY},
    {Code::context_full, PUMICE_CONTEXT_FULL},
};

// The position at which text can be cut without splitting a character.
size_t whole_characters(const char* text, size_t bytes) {
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
  return bytes;
}

} // namespace

pumice_status to_status(Code code) {
  for (const Pair& pair : pairs) {
    if (pair.code == code) return pair.status;
  }
  return PUMICE_INTERNAL;
}

Code to_code(pumice_status status) {
  for (const Pair& pair : pairs) {
    if (pair.status == number_in(status)) return pair.code;
  }
  return Code::internal;
}

pumice_status report(pumice_error* error, pumice_status status, const char* message) noexcept {
  if (!error) return status;
  *error = {};
  error->status = status;
  size_t length = std::strlen(message);
  if (length >= sizeof error->message) length = whole_characters(message, sizeof error->message - 1);
  std::memcpy(error->message, message, length);
  error->message[length] = 0;
  return status;
}

Error wrong_size(const char* name, size_t size) {
  return {Code::invalid_argument,
          fmt::format("{}.struct_size is {}: set it to the size of the structure", name, size)};
}

Error too_new(const char* name, size_t size, size_t known) {
  return {
      Code::invalid_argument,
      fmt::format("{}.struct_size is {}, and this library knows {} bytes: the program's header is newer than "
                  "the library",
                  name, size, known)};
}

Status check_array(const void* array, size_t count, size_t element_bytes, const std::string& name) {
  if (count > PTRDIFF_MAX / element_bytes) {
    return Error{Code::invalid_argument,
                 fmt::format("the count of {} is {}: no memory holds that many", name, count)};
  }
  if (array || count == 0) return {};
  return Error{Code::invalid_argument, fmt::format("{} is NULL, and its count is {}", name, count)};
}

Status check_beams(uint32_t beams) {
  constexpr uint32_t most = 64;
  if (beams <= most) return {};
  return Error{Code::invalid_argument, fmt::format("options.beams is {}: expected at most {}", beams, most)};
}

Status check_token(uint32_t token, uint32_t vocabulary, const std::string& name) {
  if (token < vocabulary) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} is {}: the vocabulary has the tokens 0 to {}", name, token, vocabulary - 1)};
}

void hand_out(const std::string& text, char* to, size_t capacity, size_t* count) {
  if (to && capacity) {
    const size_t length = text.size() < capacity ? text.size() : whole_characters(text.c_str(), capacity - 1);
    std::memcpy(to, text.data(), length);
    to[length] = 0;
  }
  if (count) *count = text.size();
}

} // namespace pumice::api

extern "C" {

void pumice_version(int* major, int* minor, int* patch) {
  if (major) *major = PUMICE_VERSION_MAJOR;
  if (minor) *minor = PUMICE_VERSION_MINOR;
  if (patch) *patch = PUMICE_VERSION_PATCH;
}

const char* pumice_status_name(pumice_status status) {
  return pumice::api::number_in(status) == PUMICE_OK ? "ok" : pumice::to_string(pumice::api::to_code(status));
}

} // extern "C"
