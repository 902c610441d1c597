#include "input/answered_lines.h"

#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <sstream>

#include <fmt/format.h>

#include "base/path.h"
#include "io/checksum.h"
#include "io/output_file.h"
#include "terminal/interrupt.h"

namespace pumice::command {

namespace {

// The file begins with a line of a fixed length, which is written again for each answer. A line for each
// unfinished line of the input follows: the checksum of the rest, the number, and what was kept of it.
constexpr const char* beginning = "answered lines:";

struct AnsweredLines {
  std::string path;
  std::fstream file;
  uint64_t before = 0;               // the last line that earlier runs have answered
  uint64_t last = 0, last_sum = 0;   // the last one by now
  std::map<uint64_t, uint64_t> sums; // of the lines that are read and not answered
  UnfinishedLines unfinished;
  bool has_unfinished = false; // the file, maybe of lines that are answered by now
};

std::unique_ptr<AnsweredLines> kept;

uint64_t sum_of(const std::string& text) {
  Checksum sum;
  sum.add(text);
  return sum.value();
}

std::string first_line(uint64_t last, uint64_t sum) {
  return fmt::format("{} {:20} last one: {:016x}\n", beginning, last, sum);
}

std::string unfinished_line(uint64_t number, const std::string& text) {
  const std::string rest = fmt::format("{} {}", number, text);
  return fmt::format("{:016x} {}\n", sum_of(rest), rest);
}

Error unwritable(const AnsweredLines& lines) {
  return {Code::io, fmt::format("{}: it cannot be written", lines.path)};
}

bool read_first_line(const std::string& text, AnsweredLines& lines) {
  std::istringstream words(text);
  std::string word[4];
  words >> word[0] >> word[1] >> lines.last >> word[2] >> word[3] >> std::hex >> lines.last_sum;
  return words && text == first_line(lines.last, lines.last_sum);
}

bool read_unfinished_line(const std::string& text, AnsweredLines& lines) {
  constexpr size_t sum_digits = 16;
  std::istringstream words(text);
  std::string sum, rest;
  uint64_t number = 0;
  if (!(words >> sum >> number) || sum.size() != sum_digits) return false;
  words.ignore();
  std::getline(words, rest);
  if (text != unfinished_line(number, rest)) return false;
  lines.has_unfinished = true;
  if (number > lines.last) lines.unfinished[number] = rest;
  return true;
}

Status read_kept(AnsweredLines& lines) {
  std::ifstream file(path_of(lines.path), std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.empty()) text = "\n"; // no first line either
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    // The last line of a file that was cut off: what it was about begins again.
    if (end == std::string::npos && number > 0) {
      lines.has_unfinished = true;
      break;
    }
    const std::string line = text.substr(at, end == std::string::npos ? end : end + 1 - at);
    at += line.size();
    if (++number == 1 && !read_first_line(line, lines)) {
      return Error{Code::invalid_file,
                   fmt::format("{}: line 1: it does not say which lines are answered: name the file of an "
                               "earlier --resume, or one that does not exist",
                               lines.path)};
    }
    if (number > 1 && !read_unfinished_line(line, lines)) {
      return Error{Code::invalid_file,
                   fmt::format("{}: line {}: it is damaged: remove it, and the texts that "
                               "it kept begin again",
                               lines.path, number)};
    }
  }
  lines.before = lines.last;
  return {};
}

bool open(AnsweredLines& lines) {
  lines.file.open(path_of(lines.path), std::ios::in | std::ios::out | std::ios::binary);
  return lines.file.is_open();
}

void write_first_line(AnsweredLines& lines) {
  lines.file.clear();
  lines.file.seekp(0);
  lines.file << first_line(lines.last, lines.last_sum) << std::flush;
}

Status write_all(AnsweredLines& lines) {
  const SavedWork saved; // Ctrl-C waits for it
  std::string text = first_line(lines.last, lines.last_sum);
  for (const auto& [number, each] : lines.unfinished) text += unfinished_line(number, each);
  OutputFile file;
  PUMICE_CHECK(file.open(path_of(lines.path)));
  PUMICE_CHECK(file.write(std::as_bytes(std::span(text))));
  lines.file.close(); // some systems do not replace an open file
  const Status written = file.finish();
  if (!open(lines)) return unwritable(lines);
  PUMICE_CHECK(written);
  lines.has_unfinished = !lines.unfinished.empty();
  return {};
}

} // namespace

Status keep_answered(const std::string& path) {
  if (path.empty() || kept) return {};
  auto lines = std::make_unique<AnsweredLines>();
  lines->path = path;
  const std::filesystem::path file = path_of(path);
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    if (!open(*lines)) return unwritable(*lines);
    PUMICE_CHECK(read_kept(*lines));
  } else {
    PUMICE_CHECK(write_all(*lines)); // never empty, so that an empty one is damaged
  }
  kept = std::move(lines);
  return {};
}

void forget_answered() {
  kept.reset();
}

uint64_t answered_before() {
  return kept ? kept->before : 0;
}

std::string unfinished_before(uint64_t number) {
  if (!kept) return {};
  const auto found = kept->unfinished.find(number);
  return found == kept->unfinished.end() ? std::string() : found->second;
}

Status note_read(uint64_t number, const std::string& text) {
  if (!kept || number < kept->before) return {};
  if (number > kept->before) {
    kept->sums[number] = sum_of(text);
    return {};
  }
  if (sum_of(text) == kept->last_sum) return {};
  return Error{
      Code::invalid_file,
      fmt::format("{}: line {} of the input is another one than the last that was answered: give the same "
                  "input again, or another file with --resume",
                  kept->path, number)};
}

Status note_answered(uint64_t number) {
  if (!kept) return {};
  const auto found = kept->sums.find(number);
  if (found == kept->sums.end()) return {};
  kept->last = number;
  kept->last_sum = found->second;
  write_first_line(*kept);
  kept->sums.erase(kept->sums.begin(), std::next(found));
  kept->unfinished.erase(kept->unfinished.begin(), kept->unfinished.upper_bound(number));
  if (kept->file) return {};
  return unwritable(*kept);
}

Status note_unfinished(const UnfinishedLines& lines) {
  if (!kept) return {};
  for (const auto& [number, text] : lines) {
    if (number > kept->last) kept->unfinished[number] = text;
  }
  if (kept->unfinished.empty() && !kept->has_unfinished) return {};
  return write_all(*kept);
}

} // namespace pumice::command
