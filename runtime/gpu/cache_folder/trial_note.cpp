#include "gpu/cache_folder/trial_note.h"

#include <algorithm>
#include <random>
#include <system_error>

#include <fmt/format.h>

#include "io/mapped_file.h"
#include "io/output_file.h"

namespace pumice {

namespace {

constexpr const char* note_suffix = ".trying-";

// A name, a newline, the value.
std::string note_text(const std::string& name, const std::string& value) {
  return name + '\n' + value;
}

} // namespace

TrialNote::~TrialNote() {
  if (path_.empty()) return;
  take_away();
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  forget_unfinished(registered_);
}

Status TrialNote::write(const std::string& name, const std::string& value) {
  if (device_file_.empty()) return {};
  if (!file_.is_open()) {
    std::error_code ignored;
    std::filesystem::create_directories(device_file_.parent_path(), ignored);
    std::filesystem::path path = device_file_;
    path += fmt::format("{}{:08x}", note_suffix, std::random_device()());
    PUMICE_TRY(file_, LockedFile::create(path));
    path_ = std::move(path);
    registered_ = register_unfinished(path_);
  }
  return file_.write(note_text(name, value), names_.insert(name).second);
}

void TrialNote::take_away() {
  if (file_.is_open()) (void)file_.write("", false);
}

void TrialNote::leave(const std::string& name, const std::string& value) {
  if (!file_.is_open() || !file_.write(note_text(name, value), true).ok()) return;
  forget_unfinished(registered_);
  registered_ = -1;
  path_.clear();
  file_ = LockedFile();
}

std::vector<LeftNote> left_notes(const std::filesystem::path& device_file) {
  std::vector<LeftNote> notes;
  if (device_file.empty()) return notes;
  const std::string begin = path_text(device_file.filename()) + note_suffix;
  std::error_code error;
  for (std::filesystem::directory_iterator at(device_file.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    if (!path_text(at->path().filename()).starts_with(begin)) continue;
    const std::optional<std::string> text = read_left_file(at->path());
    if (!text) continue;
    const size_t line = std::min(text->find('\n'), text->size() - 1);
    notes.push_back({at->path(), text->substr(0, line), text->substr(line + 1)});
  }
  return notes;
}

void forget_notes(const std::filesystem::path& device_file, const std::string& name) {
  std::error_code ignored;
  for (const LeftNote& note : left_notes(device_file)) {
    if (note.name == name) std::filesystem::remove(note.path, ignored);
  }
}

} // namespace pumice
