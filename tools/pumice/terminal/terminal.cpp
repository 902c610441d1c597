#include "terminal/terminal.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "process/processes.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

struct Console {
  Streams streams;
  std::optional<int> problem; // the errno of writing to standard output; none: it could be written
  Verbosity verbosity = Verbosity::normal;
  int status_of_success = 0;
  std::string* captured = nullptr; // what is printed instead of on standard output
};
Console console;

// Whether all of it was written; errno says why not. Ctrl-C ends waiting for a reader.
bool write_whole_text(int file, std::string_view text) {
  while (!text.empty()) {
    errno = 0;
    const ptrdiff_t count = write_some(file, text.data(), text.size());
    if (count < 0 && errno == EINTR && !interrupted()) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// The words of a label that so many columns have room for, without the small ones that lead to the next.
std::string shortened(const std::string& label, size_t columns) {
  if (count_characters(label) <= columns) return label;
  std::string kept;
  std::istringstream words(label);
  for (std::string word; words >> word; kept += (kept.empty() ? "" : " ") + word) {
    if (count_characters(kept) + 1 + count_characters(word) > columns) break;
  }
  for (const std::string_view end : {" this", " the", " for", ","}) {
    if (kept.ends_with(end)) kept.erase(kept.size() - end.size());
  }
  return kept;
}

// Goes to the beginning of a line of standard error that shows so many characters, and erases them.
std::string erasing(size_t characters) {
  if (shows_styles(console.streams.err)) return "\r\033[K";
  return "\r" + std::string(characters, ' ') + "\r";
}

} // namespace

void use_streams(const Streams& streams) {
  console = {};
  console.streams = streams;
}

int input_file() {
  return console.streams.in;
}

// Open MPI reads what its processes print through terminals of its own, also where it writes that to a file.
unsigned stdout_columns() {
  return stdout_is_terminal() ? columns_of(console.streams.out) : 0;
}

bool stdout_is_terminal() {
  return is_terminal(console.streams.out) && !started_with_others();
}
bool stdout_shows_styles() {
  return shows_styles(console.streams.out) && !started_with_others();
}
bool stderr_is_terminal() {
  return is_terminal(console.streams.err);
}
unsigned stderr_columns() {
  return stderr_is_terminal() ? columns_of(console.streams.err) : 0;
}

void set_verbosity(Verbosity verbosity) {
  console.verbosity = verbosity;
}

void print_to_stderr(std::string_view text) {
  (void)write_whole_text(console.streams.err, text);
}

void print_error(std::string_view message) {
  print_to_stderr(fitted(fmt::format("pumice: {}\n", message), stderr_columns()));
}

void set_exit_status(int status) {
  console.status_of_success = status;
}
int exit_status() {
  return console.status_of_success;
}

void print_part_error(std::string_view message) {
  print_error(message);
  set_exit_status(1);
}

bool is_of_input(const Error& error) {
  const Code code = error.code;
  return (code == Code::invalid_argument || code == Code::invalid_file || code == Code::unsupported ||
          code == Code::context_full || code == Code::out_of_memory) &&
         !interrupted();
}

Error named_error(const std::string& name, Error error) {
  if (!error.message.starts_with(name + ": ")) error.message = fmt::format("{}: {}", name, error.message);
  return error;
}

void print_note(std::string_view message) {
  if (console.verbosity != Verbosity::quiet)
    print_to_stderr(fitted(fmt::format("pumice: {}\n", message), stderr_columns()));
}

void print_detail(std::string_view message) {
  if (console.verbosity == Verbosity::verbose) print_error(message);
}

void print_figures(std::string_view lines) {
  if (console.verbosity != Verbosity::quiet) print_to_stderr(fitted(std::string(lines), stderr_columns()));
}

void capture_results(std::string* into) {
  console.captured = into;
}

void print_result(std::string_view text) {
  if (console.captured) {
    *console.captured += text;
  } else {
    write_result(text);
  }
}

void write_result(std::string_view text) {
  if (console.problem || write_whole_text(console.streams.out, text) || interrupted()) return;
  console.problem = errno ? errno : EIO;
  stop_work();
}

Status finish_output() {
  if (!console.problem) return {};
  return Error{*console.problem == EPIPE ? Code::cancelled : Code::io,
               "standard output: it could not be written: " +
                   std::generic_category().message(*console.problem)};
}

// In a line: what is too long for it could not be erased again.
std::string ProgressBar::text(uint64_t done, uint64_t total, size_t columns) const {
  const bool counted = look_ == Look::counted;
  const std::string figure =
      counted ? fmt::format(", {} of {}", done, total) : fmt::format(" {:3}%", 100 * done / total);
  const std::string label = shortened(label_, columns - std::min(columns, figure.size()));
  constexpr size_t width = 30, least = 8, frame = 3; // brackets and a space
  const size_t used = count_characters(label) + figure.size() + frame;
  if (used + least > columns) return label + figure;
  const uint64_t cells = std::min(width, columns - used), filled = cells * done / total;
  const std::string bar = fmt::format(" [{}{}]", std::string(filled, '#'), std::string(cells - filled, ' '));
  return counted ? label + figure + bar : label + bar + figure;
}

bool ProgressBar::update(uint64_t done, uint64_t total) {
  if (interrupted()) return false;
  if (console.verbosity == Verbosity::quiet || !moves_cursor(console.streams.err) || total == 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (!std::exchange(begun_, true)) first_ = now;
  if (look_ == Look::counted && now - first_ < std::chrono::milliseconds(300)) return true;
  if (drawn_ > 0 && done < total && now - last_ < std::chrono::milliseconds(50)) return true;
  const unsigned columns = stderr_columns();
  const std::string bar = text(std::min(done, total), total, (columns ? columns : 80) - 1);
  print_to_stderr(erasing(drawn_) + bar);
  drawn_ = count_characters(bar);
  last_ = now;
  return true;
}

void ProgressBar::erase() {
  if (drawn_ > 0) print_to_stderr(erasing(drawn_));
  begun_ = false;
  drawn_ = 0;
}

} // namespace pumice::command
