#include "waiting_lines.h"

#include <cerrno>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "prompt.h"
#include "terminal.h"

namespace pumice::command {

std::string WaitingLines::name(const Line& line) const {
  return fmt::format("{} {}", given_ ? "TEXT" : "standard input: line", line.number);
}

Status WaitingLines::reject(Error error) const {
  if (!skip_bad_) return error;
  print_note(error.text() + ": left out");
  return {};
}

// Takes a complete line, or at the end of standard input the last one.
bool WaitingLines::take(std::string& line) {
  if (given_) {
    if (count_ == texts_.size()) return false;
    line = texts_[count_];
    return true;
  }
  const size_t end = unread_.find('\n');
  if (end == std::string::npos && (!ended_ || unread_.empty())) return false;
  line = unread_.substr(0, end);
  unread_.erase(0, end == std::string::npos ? end : end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return true;
}

Status WaitingLines::read(bool wait) {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  const int ready = poll(&input, 1, wait ? -1 : 0); // Ctrl-C ends poll(), but not read()
  if (interrupted()) return interruption();
  dry_ = ready == 0;
  if (ready == 0 || (ready < 0 && errno == EINTR)) return {};
  char bytes[65536];
  const ssize_t count = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (count < 0 && errno == EINTR) return {};
  if (count < 0) return Error{Code::io, "standard input: it could not be read"};
  ended_ = count == 0;
  unread_.append(bytes, static_cast<size_t>(count));
  return {};
}

Result<std::vector<Line>> WaitingLines::next(size_t most) {
  if (failed_) return *failed_;
  std::vector<Line> lines;
  dry_ = false;
  while (lines.size() < most) {
    Line line;
    if (take(line.text)) {
      line.number = ++count_;
      Status status = check_utf8(line.text, name(line));
      if (status.ok()) {
        lines.push_back(std::move(line));
      } else if (status = reject(std::move(status).error()); !status.ok()) {
        if (lines.empty()) return std::move(status).error();
        failed_ = std::move(status).error();
        break;
      }
    } else if (given_ || ended_ || (dry_ && !lines.empty())) {
      break;
    } else {
      PUMICE_CHECK(read(lines.empty()));
    }
  }
  return lines;
}

void add_skip_option(CLI::App& app, bool& skip_bad) {
  app.add_flag(
         "--skip-bad-lines", skip_bad,
         "Leave out lines that are not UTF-8 or that the model cannot read, with a note for each, instead of "
         "ending at the first one")
      ->group("Text");
}

} // namespace pumice::command
