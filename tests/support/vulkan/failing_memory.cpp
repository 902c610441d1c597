#include "support/vulkan/failing_memory.h"

#include <link.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

// Where a library's code lies; empty if it is not loaded.
struct Range {
  uintptr_t begin = UINTPTR_MAX, end = 0;

  bool contains(uintptr_t address) const { return address >= begin && address < end; }
};

struct Modules {
  Range program, library; // the C++ library, where it is one of its own

  Modules() {
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* user) {
          auto& modules = *static_cast<Modules*>(user);
          const bool is_library = std::strstr(info->dlpi_name, "libstdc++");
          if (*info->dlpi_name && !is_library) return 0;
          Range& range = is_library ? modules.library : modules.program;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const ElfW(Phdr)& segment = info->dlpi_phdr[i];
            if (segment.p_type != PT_LOAD) continue;
            const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
            if (begin < range.begin) range.begin = begin;
            if (begin + segment.p_memsz > range.end) range.end = begin + segment.p_memsz;
          }
          return 0;
        },
        this);
  }
};

struct State {
  std::atomic<bool> armed = false;
  std::atomic<unsigned> round = 0; // how often it was
  std::atomic<size_t> threads = 0; // that have allocated since
  std::atomic<bool> failed = false;
  size_t thread = 0;
  size_t allocation = 0;
  bool lasting = false;
} state;

struct Thread {
  unsigned round = 0;
  size_t number = 0;
  size_t allocations = 0; // in this round
};
thread_local Thread thread;

// Whether the code behind the C++ library's is the program's. The walk begins in the program itself.
bool library_serves_program(const Modules& modules) {
  struct Walk {
    const Modules& modules;
    bool in_library = false, in_program = false;
  } walk{modules};
  _Unwind_Backtrace(
      [](_Unwind_Context* context, void* user) {
        auto& seen = *static_cast<Walk*>(user);
        const uintptr_t address = _Unwind_GetIP(context) - 1;
        if (seen.modules.library.contains(address)) {
          seen.in_library = true;
        } else if (seen.in_library) {
          seen.in_program = seen.modules.program.contains(address);
          return _URC_END_OF_STACK;
        }
        return _URC_NO_REASON;
      },
      &walk);
  return walk.in_program;
}

bool fails(uintptr_t caller) {
  if (!state.armed) return false;
  static const Modules modules;
  const bool of_program = modules.program.contains(caller) ||
                          (modules.library.contains(caller) && library_serves_program(modules));
  if (!of_program) return false;
  if (thread.round != state.round) thread = {state.round, state.threads++, 0};
  const size_t allocation = thread.allocations++;
  if (thread.number != state.thread) return false;
  const bool now = state.lasting ? allocation >= state.allocation : allocation == state.allocation;
  if (now) state.failed = true;
  return now;
}

void* allocate(size_t bytes, void* caller) {
  if (fails(reinterpret_cast<uintptr_t>(caller))) return nullptr;
  return std::malloc(bytes ? bytes : 1);
}

void* allocate_or_throw(size_t bytes, void* caller) {
  if (void* memory = allocate(bytes, caller)) return memory;
  throw std::bad_alloc();
}

} // namespace

FailingMemory::FailingMemory(size_t thread_number, size_t allocation, bool lasting) {
  state.thread = thread_number;
  state.allocation = allocation;
  state.lasting = lasting;
  state.failed = false;
  state.threads = 0;
  thread = {++state.round, this_thread, 0};
  state.armed = true;
}

FailingMemory::~FailingMemory() {
  state.armed = false;
}

bool FailingMemory::failed() const {
  return state.failed;
}

void* operator new(size_t bytes) {
  return allocate_or_throw(bytes, __builtin_return_address(0));
}
void* operator new[](size_t bytes) {
  return allocate_or_throw(bytes, __builtin_return_address(0));
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __builtin_return_address(0));
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, __builtin_return_address(0));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
