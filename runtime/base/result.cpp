#include "base/result.h"

namespace pumice {

const char* to_string(Code code) {
  switch (code) {
  case Code::invalid_argument:
    return "invalid argument";
  case Code::not_found:
    return "not found";
  case Code::invalid_file:
    return "invalid file";
  case Code::unsupported:
    return "unsupported";
  case Code::out_of_memory:
    return "out of memory";
  case Code::device_lost:
    return "device lost";
  case Code::cancelled:
    return "cancelled";
  case Code::io:
    return "input/output";
  case Code::not_ready:
    return "not ready";
  case Code::context_full:
    return "context full";
  case Code::internal:
    return "internal";
  }
  return "unknown";
}

std::string Error::text() const {
  std::string text = message;
  for (const std::string& reason : reasons) text += "\n  - " + reason;
  return text;
}

} // namespace pumice
