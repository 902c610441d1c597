#include "io/locked_file.h"

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#ifdef _WIN32
#include <io.h>
#include <windows.h>
#else
#include <sys/file.h>
#include <unistd.h>
#endif

#include "io/mapped_file.h"
#include "io/windows_file.h"

namespace pumice {

namespace {

constexpr size_t longest_text = 4096; // that is read back

// Windows has no lock beside the open file itself: while it is open, no other process can open it.
#ifdef _WIN32
int create_locked(const std::filesystem::path& path) {
  return open_windows_file(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_DELETE, CREATE_NEW);
}
int open_left(const std::filesystem::path& path) {
  return open_windows_file(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, OPEN_EXISTING);
}
bool write_all(int file, std::string_view text) {
  return _chsize_s(file, 0) == 0 && _lseek(file, 0, SEEK_SET) == 0 &&
         _write(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size());
}
bool sync(int file) {
  return _commit(file) == 0;
}
int read_some(int file, char* to, size_t bytes) {
  return _read(file, to, static_cast<unsigned>(bytes));
}
void close_file(int file) {
  _close(file);
}
void sync_folder(const std::filesystem::path&) {}
#else
int create_locked(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return file;
  struct stat state = {};
  const bool locked = ::flock(file, LOCK_EX) == 0 && ::fstat(file, &state) == 0;
  if (locked && state.st_nlink > 0) return file;
  const int reason = locked ? EAGAIN : errno; // a reader took the empty file for one that was left
  ::close(file);
  ::unlink(path.c_str());
  errno = reason;
  return -1;
}
int open_left(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0 || ::flock(file, LOCK_SH | LOCK_NB) == 0) return file;
  ::close(file);
  return -1;
}
bool write_all(int file, std::string_view text) {
  return ::ftruncate(file, 0) == 0 &&
         ::pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}
bool sync(int file) {
  return ::fsync(file) == 0;
}
ssize_t read_some(int file, char* to, size_t bytes) {
  return ::read(file, to, bytes);
}
void close_file(int file) {
  ::close(file);
}
void sync_folder(const std::filesystem::path& folder) {
  const int file = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)::fsync(file);
  ::close(file);
}
#endif

Error failed(const std::filesystem::path& path) {
  return {Code::io, fmt::format("{}: cannot be written: {}", path_text(path),
                                errno ? std::generic_category().message(errno) : "unknown reason")};
}

} // namespace

Result<LockedFile> LockedFile::create(const std::filesystem::path& path) {
  errno = 0;
  const int file = create_locked(path);
  if (file < 0) return failed(path);
  sync_folder(path.parent_path());
  return LockedFile(file);
}

LockedFile::~LockedFile() {
  if (file_ >= 0) close_file(file_);
}

LockedFile::LockedFile(LockedFile&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

LockedFile& LockedFile::operator=(LockedFile&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Status LockedFile::write(std::string_view text, bool durable) {
  errno = 0;
  if (write_all(file_, text) && (!durable || sync(file_))) return {};
  return Error{Code::io,
               fmt::format("a note could not be written: {}", std::generic_category().message(errno))};
}

std::optional<std::string> read_left_file(const std::filesystem::path& path) {
  const int file = open_left(path);
  if (file < 0) return {};
  std::array<char, longest_text> text;
  const auto bytes = read_some(file, text.data(), text.size());
  std::error_code ignored;
  if (bytes == 0) std::filesystem::remove(path, ignored); // while it is locked
  close_file(file);
  if (bytes <= 0) return {};
  return std::string(text.data(), static_cast<size_t>(bytes));
}

} // namespace pumice
