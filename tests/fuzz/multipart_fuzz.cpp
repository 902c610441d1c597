// A form of a request to the server: its type in the first line, and what was sent behind it. It is refused
// with a sentence, or its parts lie in the body and are the same when they are written again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// The server is a part of the command, which the fuzz targets do not link.
#include "serve/routes/multipart.cpp"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = input.find('\n');
  if (line == std::string_view::npos) return 0;
  const std::string_view type = input.substr(0, line), body = input.substr(line + 1);
  const auto parts = pumice::serve::read_form_parts(type, body);
  if (!parts.ok()) {
    check(!parts.error().message.empty());
    return 0;
  }
  const std::string boundary = pumice::serve::parameters_of(type)->at("boundary");
  std::string written;
  for (const pumice::serve::FormPart& part : *parts) {
    check(part.value.data() >= body.data() &&
          part.value.data() + part.value.size() <= body.data() + body.size());
    if (part.name.size() > 1000) return 0; // with its escapes it may be too long for a header
    written += "--" + boundary + "\r\nContent-Disposition: form-data; name=" + quoted(part.name);
    if (part.is_file) written += "; filename=\"a\"";
    written += "\r\n\r\n" + std::string(part.value) + "\r\n";
  }
  written += "--" + boundary + "--\r\n";
  const auto again =
      pumice::serve::read_form_parts("multipart/form-data; boundary=" + quoted(boundary), written);
  check(again.ok() && again->size() == parts->size());
  for (size_t i = 0; i < parts->size(); ++i) {
    const pumice::serve::FormPart &one = (*parts)[i], &other = (*again)[i];
    check(one.name == other.name && one.value == other.value && one.is_file == other.is_file);
  }
  return 0;
}
