#include "io/mapped_file.h"

#include <cstdint>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace pumice {

std::string path_text(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

namespace {

Error refused(const std::string& path, const char* what, int code, bool missing) {
  return {missing ? Code::not_found : Code::io,
          fmt::format("{}: {}: {}", path, what, std::system_category().message(code))};
}

#ifdef _WIN32

// Closes a handle when it goes out of scope; a view keeps its file open by itself.
struct Handle {
  HANDLE value = INVALID_HANDLE_VALUE;
  ~Handle() {
    if (value != INVALID_HANDLE_VALUE && value != nullptr) CloseHandle(value);
  }
};

Result<std::span<const std::byte>> map(const std::filesystem::path& path, const std::string& text) {
  const auto failed = [&](const char* what) {
    const DWORD code = GetLastError();
    return refused(text, what, static_cast<int>(code),
                   code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND);
  };
  const DWORD attributes = GetFileAttributesW(path.c_str());
  if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
    return Error{Code::io, fmt::format("{}: expected a file, found a folder", text)};
  const Handle file{CreateFileW(path.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING,
                                FILE_ATTRIBUTE_NORMAL, nullptr)};
  if (file.value == INVALID_HANDLE_VALUE) return failed("cannot be opened");
  if (GetFileType(file.value) != FILE_TYPE_DISK)
    return Error{Code::io, fmt::format("{}: expected a regular file, found a device or a pipe", text)};
  LARGE_INTEGER size{};
  if (!GetFileSizeEx(file.value, &size)) return failed("its size cannot be read");
  if (size.QuadPart == 0) return std::span<const std::byte>();
  if (static_cast<uint64_t>(size.QuadPart) > SIZE_MAX)
    return Error{Code::unsupported,
                 fmt::format("{}: {} bytes do not fit this address space", text, size.QuadPart)};
  const Handle mapping{CreateFileMappingW(file.value, nullptr, PAGE_READONLY, 0, 0, nullptr)};
  if (mapping.value == nullptr) return failed("cannot be mapped");
  const void* address = MapViewOfFile(mapping.value, FILE_MAP_READ, 0, 0, 0);
  if (address == nullptr) return failed("cannot be mapped");
  return std::span(static_cast<const std::byte*>(address), static_cast<size_t>(size.QuadPart));
}

#else

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

Result<std::span<const std::byte>> map(const std::filesystem::path& path, const std::string& text) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer that may never come.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) return refused(text, "cannot be opened", errno, errno == ENOENT || errno == ENOTDIR);
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return refused(text, "its size cannot be read", errno, false);
  if (S_ISDIR(status.st_mode))
    return Error{Code::io, fmt::format("{}: expected a file, found a folder", text)};
  if (!S_ISREG(status.st_mode))
    return Error{Code::io, fmt::format("{}: expected a regular file, found a device or a pipe", text)};
  if (status.st_size == 0) return std::span<const std::byte>(); // mmap refuses a length of nothing
  if (static_cast<uint64_t>(status.st_size) > SIZE_MAX)
    return Error{Code::unsupported,
                 fmt::format("{}: {} bytes do not fit this address space", text, status.st_size)};
  const auto size = static_cast<size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (address == MAP_FAILED) return refused(text, "cannot be mapped", errno, false);
  return std::span(static_cast<const std::byte*>(address), size);
}

#endif

} // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  MappedFile file;
  file.path_ = path_text(path);
  PUMICE_TRY(file.bytes_, map(path, file.path_));
  file.owned_ = true;
  return file;
}

MappedFile MappedFile::from_memory(std::span<const std::byte> bytes, std::string name) {
  MappedFile file;
  file.bytes_ = bytes;
  file.path_ = std::move(name);
  return file;
}

MappedFile::~MappedFile() {
  unmap();
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)),
      owned_(std::exchange(other.owned_, false)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  bytes_ = std::exchange(other.bytes_, {});
  path_ = std::move(other.path_);
  owned_ = std::exchange(other.owned_, false);
  return *this;
}

void MappedFile::unmap() {
  if (!owned_ || bytes_.empty()) return;
#ifdef _WIN32
  UnmapViewOfFile(bytes_.data());
#else
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
#endif
}

#ifdef _WIN32

void will_be_read(std::span<const std::byte>) {} // Windows reads ahead of what is touched by itself

#else

void will_be_read(std::span<const std::byte> bytes) {
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  if (bytes.empty()) return;
  ::posix_madvise(reinterpret_cast<void*>(begin), end - begin, POSIX_MADV_WILLNEED);
}

#endif

} // namespace pumice
