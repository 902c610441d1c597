#include "io/output_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fstream>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/mapped_file.h"
#include "io/windows_file.h"

#ifdef _WIN32
#include <io.h>
#include <windows.h>
#else
#include <unistd.h>
#endif

namespace pumice {

namespace {

namespace fs = std::filesystem;

constexpr int most_links = 40; // that are followed, as Linux does
constexpr size_t longest_name_part =
    200; // bytes of a name that its new file's name has; file systems allow 255

#ifdef _WIN32
// So that remove_unfinished_files() can remove it.
std::FILE* open_to_write(const fs::path& path, bool) {
  constexpr DWORD sharing = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  const int file = open_windows_file(path, GENERIC_READ | GENERIC_WRITE, sharing, CREATE_ALWAYS);
  return file < 0 ? nullptr : _fdopen(file, "w+b");
}
bool seek_to(std::FILE* file, uint64_t at) {
  return _fseeki64(file, static_cast<int64_t>(at), SEEK_SET) == 0;
}
void remove_file(const wchar_t* path) {
  (void)_wunlink(path);
}
#else
// A device or a pipe may not be read.
std::FILE* open_to_write(const fs::path& path, bool replaced) {
  return std::fopen(path.c_str(), replaced ? "w+b" : "wb");
}
bool seek_to(std::FILE* file, uint64_t at) {
  return ::fseeko(file, static_cast<off_t>(at), SEEK_SET) == 0;
}
void remove_file(const char* path) {
  (void)::unlink(path);
}
#endif

Error write_error(const std::string& name, const std::string& why, Code code = Code::io) {
  return {code, fmt::format("{}: cannot be written: {}", name, why)};
}

std::string last_reason() {
  return errno ? std::generic_category().message(errno) : "unknown reason";
}

// Where a file is written.
struct Target {
  fs::path path;
  bool replaced = false;                      // a new file takes its place
  fs::perms permissions = fs::perms::unknown; // of the file that is there
};

// Whether a name stands for a file that some process has open, as /proc/self/fd/1 does, where /dev/stdout
// leads to.
bool is_open_file(const fs::path& path) {
  std::error_code ignored;
  return path_text(fs::canonical(path.parent_path(), ignored)).starts_with("/proc/");
}

// The file that a path leads to, through symbolic links.
fs::path follow_links(fs::path path) {
  for (int i = 0; i < most_links && !is_open_file(path); ++i) {
    std::error_code not_a_link;
    const fs::path to = fs::read_symlink(path, not_a_link);
    if (not_a_link) break;
    path = to.is_absolute() ? to : path.parent_path() / to;
  }
  return path;
}

// Opening a file for appending changes nothing in it.
Status check_may_change(const std::string& name, const fs::path& path, fs::perms permissions) {
  constexpr fs::perms writing = fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  if ((permissions & writing) == fs::perms::none) {
    return write_error(name, "the file there is write-protected: remove it first, or choose another name",
                       Code::invalid_argument);
  }
  errno = 0;
  if (std::ofstream(path, std::ios::binary | std::ios::app)) return {};
  return write_error(name, last_reason());
}

// `permissions`: of the file that is there, unknown if there is none.
Result<Target> find_regular(const std::string& name, const fs::path& path, fs::perms permissions) {
  const Target target{follow_links(path), true, permissions};
  if (is_open_file(target.path)) return Target{path};
  if (permissions != fs::perms::unknown) PUMICE_CHECK(check_may_change(name, path, permissions));
  const fs::path parent = target.path.parent_path(), folder = parent.empty() ? "." : parent;
  std::error_code ignored;
  if (fs::is_directory(folder, ignored)) return target;
  return write_error(name, fmt::format("there is no folder {}", path_text(folder)), Code::not_found);
}

Result<Target> find_target(const fs::path& path) {
  const std::string name = path_text(path);
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  switch (there.type()) {
  case fs::file_type::directory:
    return write_error(name, "it is a folder: give the name of a file", Code::invalid_argument);
  case fs::file_type::block:
    return write_error(name, "it is a disk: give the name of a file", Code::invalid_argument);
  case fs::file_type::not_found:
    if (path.has_filename()) return find_regular(name, path, fs::perms::unknown);
    return write_error(name, "give the name of a file", Code::invalid_argument);
  case fs::file_type::regular:
    return find_regular(name, path, there.permissions());
  case fs::file_type::none:
    return write_error(name, error.message());
  default: // a device or a pipe
    return Target{path};
  }
}

// A name beside the target that no file has.
fs::path name_beside(const fs::path& target) {
  std::random_device random;
  const std::string name = path_text(target.filename()).substr(0, longest_name_part);
  for (;;) {
    fs::path path = target.parent_path() / fmt::format("{}.partial-{:08x}", name, random());
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(path, ignored))) return path;
  }
}

// The new files of OutputFiles that are open. Fixed places, because a signal handler reads them.
struct UnfinishedFile {
  std::atomic<bool> taken = false;
  std::atomic<bool> complete = false; // the name is
  std::array<fs::path::value_type, 4096> name = {};
};
std::array<UnfinishedFile, 16> unfinished_files;

} // namespace

int register_unfinished(const fs::path& path) {
  const fs::path::string_type& name = path.native();
  if (name.size() >= unfinished_files[0].name.size()) return -1;
  for (size_t i = 0; i < unfinished_files.size(); ++i) {
    UnfinishedFile& place = unfinished_files[i];
    if (place.taken.exchange(true)) continue;
    std::copy_n(name.c_str(), name.size() + 1, place.name.begin());
    place.complete = true;
    return static_cast<int>(i);
  }
  return -1;
}

void forget_unfinished(int place) {
  if (place < 0) return;
  unfinished_files[static_cast<size_t>(place)].complete = false;
  unfinished_files[static_cast<size_t>(place)].taken = false;
}

void remove_unfinished_files() {
  for (UnfinishedFile& place : unfinished_files) {
    if (place.complete.exchange(false)) remove_file(place.name.data());
  }
}

OutputFile::~OutputFile() {
  if (file_) std::fclose(file_);
  if (partial_.empty()) return;
  std::error_code ignored;
  fs::remove(partial_, ignored);
  forget_unfinished(registered_);
}

Status OutputFile::check(const fs::path& path) {
  PUMICE_TRY(const Target target, find_target(path));
  return target.replaced ? OutputFile().open(path) : Status(); // opening a pipe would wait for its reader
}

Error OutputFile::failed() const {
  return write_error(name_, last_reason());
}

Status OutputFile::open(const fs::path& path) {
  name_ = path_text(path);
  PUMICE_TRY(const Target target, find_target(path));
  target_ = target.path;
  const fs::path opened = target.replaced ? name_beside(target_) : target_;
  errno = 0;
  file_ = open_to_write(opened, target.replaced);
  if (!file_) return failed();
  if (!target.replaced) return {};
  partial_ = opened;
  registered_ = register_unfinished(partial_);
  std::error_code error;
  if (target.permissions != fs::perms::unknown) fs::permissions(partial_, target.permissions, error);
  return error ? Status(write_error(name_, error.message())) : Status();
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  errno = 0;
  if (!file_) return failed();
  const bool written = bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size();
  return written ? Status() : Status(failed());
}

Status OutputFile::move_back(uint64_t from, uint64_t to, uint64_t bytes) {
  errno = 0;
  if (!file_ || !seekable()) return failed();
  std::vector<std::byte> part(size_t{1} << 20);
  for (uint64_t moved = 0; moved < bytes;) {
    const size_t count = static_cast<size_t>(std::min<uint64_t>(part.size(), bytes - moved));
    if (!seek_to(file_, from + moved) || std::fread(part.data(), 1, count, file_) != count) return failed();
    if (!seek_to(file_, to + moved)) return failed();
    PUMICE_CHECK(write(std::span(part).first(count)));
    moved += count;
  }
  if (std::fflush(file_) != 0) return failed();
  std::error_code error;
  fs::resize_file(partial_, to + bytes, error);
  return error ? Status(write_error(name_, error.message())) : Status();
}

Status OutputFile::write_first(std::span<const std::byte> bytes) {
  errno = 0;
  if (!file_ || !seek_to(file_, 0)) return failed();
  return write(bytes);
}

Status OutputFile::flush() {
  errno = 0;
  return file_ && std::fflush(file_) == 0 ? Status() : Status(failed());
}

Status OutputFile::finish() {
  errno = 0;
  if (!file_) return failed(); // not open, or finished already
  const bool written = !std::ferror(file_);
  const bool closed =
      std::fclose(std::exchange(file_, nullptr)) == 0; // writes the rest, which fails if the disk is full
  if (!written || !closed) return failed();
  if (partial_.empty()) return {};
  std::error_code error;
  fs::rename(partial_, target_, error);
  if (error) return write_error(name_, error.message());
  forget_unfinished(registered_);
  partial_.clear();
  return {};
}

} // namespace pumice
