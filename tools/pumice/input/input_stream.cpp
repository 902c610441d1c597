#include "input/input_stream.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "options/prompt.h"
#include "terminal/terminal.h"

namespace pumice::command {

std::string input_name(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

InputStream::~InputStream() {
  if (descriptor_ >= 0 && !is_standard_input()) close_file(descriptor_);
}

InputStream::InputStream(InputStream&& other) noexcept
    : path_(other.path_), descriptor_(std::exchange(other.descriptor_, -1)), ended_(other.ended_) {}

bool InputStream::is_terminal() const {
  return is_standard_input() && command::is_terminal(input_file());
}

Error InputStream::cannot_read(int number) const {
  return Error{Code::io, fmt::format("{}: it cannot be read: {}", name(), std::strerror(number))};
}

Status InputStream::open() {
  if (descriptor_ >= 0) return {};
  descriptor_ = is_standard_input() ? input_file() : open_to_read(path_);
  return descriptor_ < 0 ? cannot_read(errno) : Status();
}

Result<bool> InputStream::read(std::string& text, bool wait) {
  PUMICE_CHECK(open());
  while (!ended_) {
    const bool ready = wait_to_read(descriptor_, wait ? -1 : 0); // Ctrl-C ends this, but not reading
    if (interrupted()) return interruption();
    if (!ready && !wait) return false;
    if (!ready) continue;
    char bytes[65536];
    const ptrdiff_t count = read_some(descriptor_, bytes, sizeof bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(errno);
    ended_ = count == 0;
    text.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }
  return false;
}

Result<bool> InputStream::arrives(int milliseconds) {
  PUMICE_CHECK(open());
  const bool ready = ended_ || wait_to_read(descriptor_, milliseconds);
  if (interrupted()) return interruption();
  return ready;
}

Result<std::string> read_all(InputStream& stream) {
  if (stream.is_terminal()) print_note("waiting for a text; Ctrl-D on an empty line ends it");
  std::string text;
  while (!stream.ended()) PUMICE_CHECK(stream.read(text, true));
  return text;
}

std::string without_marks(std::string text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool of_line_end = text[i] == '\r' && (i + 1 == text.size() || text[i + 1] == '\n');
    if (!of_line_end) text[kept++] = text[i];
  }
  text.resize(kept);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::string> read_text(const std::string& path) {
  InputStream stream(path);
  PUMICE_TRY(std::string text, read_all(stream));
  PUMICE_CHECK(check_utf8(text, stream.name()));
  return without_marks(std::move(text));
}

bool input_is_given() {
  return has_contents(input_file());
}

} // namespace pumice::command
