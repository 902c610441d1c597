#include "answered_lines.h"

#include <fstream>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "base/path.h"
#include "io/checksum.h"

namespace pumice::command {

namespace {

// The file has one line of a fixed length, which is written anew for each answer.
constexpr const char* beginning = "answered lines:";

struct AnsweredLines {
  std::string path;
  std::fstream file;
  uint64_t before = 0, checksum = 0;
  std::map<uint64_t, uint64_t> checksums; // of the lines that are read and not answered
};

std::unique_ptr<AnsweredLines> kept;

uint64_t checksum_of(const std::string& text) {
  Checksum sum;
  sum.add(text);
  return sum.value();
}

void write(AnsweredLines& lines, uint64_t number, uint64_t checksum) {
  lines.file.clear();
  lines.file.seekp(0);
  lines.file << fmt::format("{} {:20} last one: {:016x}\n", beginning, number, checksum) << std::flush;
}

Status read_kept(AnsweredLines& lines) {
  std::string words[4];
  lines.file >> words[0] >> words[1] >> lines.before >> words[2] >> words[3] >> std::hex >> lines.checksum;
  if (lines.file && words[0] + " " + words[1] == beginning) return {};
  return Error{
      Code::invalid_file,
      fmt::format("{}: it does not say which lines are answered: name the file of an earlier --resume, "
                  "or one that does not exist",
                  lines.path)};
}

} // namespace

Status keep_answered(const std::string& path) {
  if (path.empty() || kept) return {};
  auto lines = std::make_unique<AnsweredLines>();
  lines->path = path;
  const std::filesystem::path file = path_of(path);
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    lines->file.open(file, std::ios::in | std::ios::out);
    if (lines->file) PUMICE_CHECK(read_kept(*lines));
  } else {
    lines->file.open(file, std::ios::in | std::ios::out | std::ios::trunc);
    write(*lines, 0, 0);
  }
  if (!lines->file) return Error{Code::io, fmt::format("{}: it cannot be written", path)};
  kept = std::move(lines);
  return {};
}

uint64_t answered_before() {
  return kept ? kept->before : 0;
}

Status note_read(uint64_t number, const std::string& text) {
  if (!kept || number < kept->before) return {};
  if (number > kept->before) {
    kept->checksums[number] = checksum_of(text);
    return {};
  }
  if (checksum_of(text) == kept->checksum) return {};
  return Error{
      Code::invalid_file,
      fmt::format("{}: line {} of the input is another one than the last that was answered: give the same "
                  "input again, or another file with --resume",
                  kept->path, number)};
}

Status note_answered(uint64_t number) {
  if (!kept) return {};
  const auto found = kept->checksums.find(number);
  if (found == kept->checksums.end()) return {};
  write(*kept, number, found->second);
  kept->checksums.erase(kept->checksums.begin(), std::next(found));
  if (kept->file) return {};
  return Error{Code::io, fmt::format("{}: it cannot be written", kept->path)};
}

} // namespace pumice::command
