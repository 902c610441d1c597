#include "io/mapped_file.h"

#include <algorithm>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/nearest_files.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

namespace pumice {

namespace {

// Bytes that one call of ReadBytes reads: large enough that the cost of a call does not matter, small enough
// that a load can be cancelled soon.
constexpr uint64_t piece_bytes = uint64_t{4} << 20;

// The bytes of a file's range, and the pages that contain them.
struct Mapping {
  std::span<const std::byte> bytes, pages;
};

// Checks the range against the file's size and sets its length if that is 0.
Status check(FileRange& range, uint64_t file_bytes, const std::string& path) {
  if (range.offset > file_bytes || range.bytes > file_bytes - range.offset) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected {} bytes from byte {} on, found a file of {} "
                             "bytes",
                             path, std::max<uint64_t>(range.bytes, 1), range.offset, file_bytes)};
  }
  if (range.bytes == 0) range.bytes = file_bytes - range.offset;
  if (range.bytes > SIZE_MAX / 2) {
    return Error{Code::unsupported,
                 fmt::format("{}: {} bytes do not fit this address space", path, range.bytes)};
  }
  return {};
}

Error no_memory(const std::string& name, uint64_t bytes) {
  return {Code::out_of_memory, fmt::format("{}: not enough memory for its {} bytes", name, bytes)};
}

Error os_error(const std::string& path, const char* what, int code, bool missing) {
  Error error{missing ? Code::not_found : Code::io,
              fmt::format("{}: {}: {}", path, what, std::system_category().message(code))};
  if (!missing) return error;
  const std::vector<std::string> nearest = nearest_files(path_of(path));
  if (!nearest.empty()) error.message += fmt::format("; did you mean {}?", fmt::join(nearest, " or "));
  return error;
}

#ifdef _WIN32

// Closes a handle when it goes out of scope. A mapped view keeps its file open on its own.
struct Handle {
  HANDLE value = INVALID_HANDLE_VALUE;
  ~Handle() {
    if (value != INVALID_HANDLE_VALUE && value != nullptr) CloseHandle(value);
  }
};

Result<Mapping> map(const std::filesystem::path& path, const std::string& text, FileRange range) {
  const auto failed = [&](const char* what) {
    const DWORD code = GetLastError();
    return os_error(text, what, static_cast<int>(code),
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
  PUMICE_CHECK(check(range, static_cast<uint64_t>(size.QuadPart), text));
  if (range.bytes == 0) return Mapping{};
  const Handle mapping{CreateFileMappingW(file.value, nullptr, PAGE_READONLY, 0, 0, nullptr)};
  if (mapping.value == nullptr) return failed("cannot be mapped");
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  const uint64_t begin = range.offset / system.dwAllocationGranularity * system.dwAllocationGranularity;
  const auto before = static_cast<size_t>(range.offset - begin),
             size_needed = before + static_cast<size_t>(range.bytes);
  const void* address = MapViewOfFile(mapping.value, FILE_MAP_READ, static_cast<DWORD>(begin >> 32),
                                      static_cast<DWORD>(begin & 0xffffffffu), size_needed);
  if (address == nullptr) return failed("cannot be mapped");
  const std::span pages(static_cast<const std::byte*>(address), size_needed);
  return Mapping{pages.subspan(before), pages};
}

void unmap_file(std::span<const std::byte> pages) {
  UnmapViewOfFile(pages.data());
}

std::byte* reserve_pages(size_t bytes) {
  return static_cast<std::byte*>(VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
}

void free_pages(std::span<const std::byte> pages) {
  VirtualFree(const_cast<std::byte*>(pages.data()), 0, MEM_RELEASE);
}

// Pages that are decommitted and committed again are new zero pages.
void empty_pages(std::byte* begin, size_t bytes) {
  VirtualFree(begin, bytes, MEM_DECOMMIT);
  VirtualAlloc(begin, bytes, MEM_COMMIT, PAGE_READWRITE);
}

uintptr_t page_bytes() {
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  return system.dwPageSize;
}

#else

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

uintptr_t page_bytes() {
  static const auto bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

Result<Mapping> map(const std::filesystem::path& path, const std::string& text, FileRange range) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer that may never come.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) return os_error(text, "cannot be opened", errno, errno == ENOENT || errno == ENOTDIR);
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return os_error(text, "its size cannot be read", errno, false);
  if (S_ISDIR(status.st_mode))
    return Error{Code::io, fmt::format("{}: expected a file, found a folder", text)};
  if (!S_ISREG(status.st_mode))
    return Error{Code::io, fmt::format("{}: expected a regular file, found a device or a pipe", text)};
  PUMICE_CHECK(check(range, static_cast<uint64_t>(status.st_size), text));
  if (range.bytes == 0) return Mapping{}; // mmap refuses a length of 0
  const uint64_t begin = range.offset / page_bytes() * page_bytes();
  const auto before = static_cast<size_t>(range.offset - begin);
  const size_t size = before + static_cast<size_t>(range.bytes);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, static_cast<off_t>(begin));
  if (address == MAP_FAILED) return os_error(text, "cannot be mapped", errno, false);
  const std::span pages(static_cast<const std::byte*>(address), size);
  return Mapping{pages.subspan(before), pages};
}

void unmap_file(std::span<const std::byte> pages) {
  ::munmap(const_cast<std::byte*>(pages.data()), pages.size());
}

std::byte* reserve_pages(size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return address == MAP_FAILED ? nullptr : static_cast<std::byte*>(address);
}

void free_pages(std::span<const std::byte> pages) {
  unmap_file(pages);
}

// Maps new zero pages in their place, because madvise() does not zero memory on every system.
void empty_pages(std::byte* begin, size_t bytes) {
  ::mmap(begin, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

#endif

} // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path, FileRange range) {
  MappedFile file;
  file.path_ = path_text(path);
  PUMICE_TRY(const Mapping mapping, map(path, file.path_, range));
  file.bytes_ = mapping.bytes;
  file.pages_ = mapping.pages;
  return file;
}

Result<MappedFile> MappedFile::reserve(uint64_t bytes, std::string name) {
  MappedFile file;
  file.path_ = std::move(name);
  if (bytes == 0) return file;
  if (bytes > SIZE_MAX / 2) return no_memory(file.path_, bytes);
  std::byte* address = reserve_pages(static_cast<size_t>(bytes));
  if (!address) return no_memory(file.path_, bytes);
  file.bytes_ = file.pages_ = {address, static_cast<size_t>(bytes)};
  file.reserved_ = true;
  return file;
}

Status MappedFile::read(const ReadBytes& source, uint64_t begin, uint64_t count, const Progress& progress) {
  for (uint64_t done = 0; done < count;) {
    const uint64_t at = begin + done, bytes = std::min(piece_bytes, count - done);
    if (progress && !progress(done, count)) {
      return Error{Code::cancelled, fmt::format("{}: reading it was cancelled", path_)};
    }
    // The pages are this object's own, and writable.
    if (!source(at, {const_cast<std::byte*>(bytes_.data()) + at, static_cast<size_t>(bytes)})) {
      return Error{Code::io, fmt::format("{}: {} bytes from byte {} on could not be read", path_, bytes, at)};
    }
    done += bytes;
  }
  return {};
}

void MappedFile::forget(std::span<const std::byte> bytes) {
  if (!reserved_ || bytes.data() < bytes_.data() ||
      bytes.data() + bytes.size() > bytes_.data() + bytes_.size())
    return;
  const uintptr_t page = page_bytes(), at = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t begin = (at + page - 1) / page * page, end = (at + bytes.size()) / page * page;
  if (begin < end) empty_pages(reinterpret_cast<std::byte*>(begin), end - begin);
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
    : bytes_(std::exchange(other.bytes_, {})), pages_(std::exchange(other.pages_, {})),
      reserved_(other.reserved_), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  bytes_ = std::exchange(other.bytes_, {});
  pages_ = std::exchange(other.pages_, {});
  reserved_ = other.reserved_;
  path_ = std::move(other.path_);
  return *this;
}

void MappedFile::unmap() {
  if (pages_.empty()) return;
  reserved_ ? free_pages(pages_) : unmap_file(pages_);
}

#ifdef _WIN32

void will_be_read(std::span<const std::byte>) {} // Windows reads ahead on its own
void was_read(std::span<const std::byte>) {}

#else

void will_be_read(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data()) / page_bytes() * page_bytes();
  const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size());
  if (bytes.empty()) return;
  ::posix_madvise(reinterpret_cast<void*>(begin), end - begin, POSIX_MADV_WILLNEED);
}

void was_read([[maybe_unused]] std::span<const std::byte> bytes) {
#ifdef __linux__ // where posix_madvise() does nothing of that kind
  const uintptr_t page = page_bytes();
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
#endif
}

#endif

} // namespace pumice
