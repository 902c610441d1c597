#include "gpu/host_memory.h"

#include <cstring>
#include <new>

#include <fmt/format.h>

#include "gpu/buffer.h"

namespace pumice {

Result<std::shared_ptr<HostMemory>> HostMemory::create(uint64_t bytes, uint64_t alignment) {
  const uint64_t all = align(Buffer::allocated_bytes(bytes), alignment);
  void* const memory = ::operator new (all, std::align_val_t{alignment}, std::nothrow);
  if (!memory) return Error{Code::out_of_memory, fmt::format("{} bytes of the host's memory", all)};
  std::memset(memory, 0, all);
  return std::shared_ptr<HostMemory>(
      new HostMemory({static_cast<std::byte*>(memory), all}, alignment, bytes));
}

HostMemory::~HostMemory() {
  ::operator delete (bytes_.data(), std::align_val_t{alignment_});
}

} // namespace pumice
