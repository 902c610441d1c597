#include "base/fresh_memory.h"

#include <cstdint>
#include <mutex>
#include <new>

#include "base/align.h"

#ifdef _WIN32
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace pumice {

namespace {

#ifdef _WIN32

size_t page_size() {
  SYSTEM_INFO info;
  GetSystemInfo(&info);
  return info.dwPageSize;
}
void* reserve(size_t size) {
  return VirtualAlloc(nullptr, size, MEM_RESERVE, PAGE_NOACCESS);
}
bool commit(void* pages, size_t size) {
  return VirtualAlloc(pages, size, MEM_COMMIT, PAGE_READWRITE);
}
void decommit(void* pages, size_t size) {
  VirtualFree(pages, size, MEM_DECOMMIT);
}

#else

size_t page_size() {
  return static_cast<size_t>(sysconf(_SC_PAGESIZE));
}
#ifdef __linux__
// LeakSanitizer's, where a program has it: it looks for what is still in use in no memory that a program maps
// itself, and what handles own would seem lost.
extern "C" [[gnu::weak]] void __lsan_register_root_region(const void* begin, size_t size);
void tell_leak_sanitizer(const void* begin, size_t size) {
  if (__lsan_register_root_region) __lsan_register_root_region(begin, size);
}
#else
void tell_leak_sanitizer(const void*, size_t) {}
#endif

void* map_nothing(void* at, size_t size, int fixed) {
  void* const pages = mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}
void* reserve(size_t size) {
  void* const pages = map_nothing(nullptr, size, 0);
  if (pages) tell_leak_sanitizer(pages, size);
  return pages;
}
bool commit(void* pages, size_t size) {
  return mprotect(pages, size, PROT_READ | PROT_WRITE) == 0;
}
void decommit(void* pages, size_t size) {
  map_nothing(pages, size, MAP_FIXED);
}

#endif

constexpr bool enough_addresses = sizeof(void*) >= 8;

// Addresses that were reserved and not handed out.
struct Reserve {
  std::mutex mutex;
  char* next = nullptr;
  size_t left = 0;
};

// Never destroyed: static objects of a program may allocate after everything else.
Reserve& addresses() {
  static Reserve& reserve = *new Reserve;
  return reserve;
}

size_t whole_pages(size_t size) {
  static const size_t page = page_size();
  return align(size, page);
}

} // namespace

void* allocate_fresh(size_t size) {
  if (!enough_addresses) return ::operator new(size);
  const size_t bytes = whole_pages(size);
  Reserve& all = addresses();
  const std::lock_guard lock(all.mutex);
  if (all.left < bytes) {
    constexpr size_t usual = size_t{1} << 20; // reserving costs a call of the system
    const size_t reserved = bytes > usual ? bytes : usual;
    auto* const begin = static_cast<char*>(reserve(reserved));
    if (!begin) throw std::bad_alloc();
    all.next = begin;
    all.left = reserved;
  }
  char* const memory = all.next;
  if (!commit(memory, bytes)) throw std::bad_alloc();
  all.next += bytes;
  all.left -= bytes;
  return memory;
}

void free_fresh(void* memory, size_t size) noexcept {
  if (!enough_addresses) return ::operator delete(memory);
  decommit(memory, whole_pages(size));
}

} // namespace pumice
