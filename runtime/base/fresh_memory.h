#pragma once

#include <cstddef>

namespace pumice {

// Memory at an address that no earlier call has returned: who keeps the address of what was there never finds
// something new. What is freed goes back to the system, and only the address is lost, of which processes of
// 64 bits have enough for billions of calls. Those of 32 bits get memory of the heap.
void* allocate_fresh(size_t size); // throws std::bad_alloc
void free_fresh(void* memory, size_t size) noexcept;

} // namespace pumice
