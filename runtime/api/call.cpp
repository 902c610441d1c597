#include "api/call.h"

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
    if (pair.status == status) return pair.code;
  }
  return Code::internal;
}

pumice_status report(pumice_error* error, pumice_status status, const char* message) noexcept {
  if (!error) return status;
  error->status = status;
  size_t length = std::strlen(message);
  if (length >= sizeof error->message) length = whole_characters(message, sizeof error->message - 1);
  std::memcpy(error->message, message, length);
  error->message[length] = 0;
  return status;
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
  return status == PUMICE_OK ? "ok" : pumice::to_string(pumice::api::to_code(status));
}

} // extern "C"
