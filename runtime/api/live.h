#pragma once

#include <cstdint>

#include "api/call.h"
#include "base/fresh_memory.h"
#include "base/live_objects.h"

// Which handles are alive. A program that uses one after destroying it, destroys it twice or takes one for
// another gets an error: what a pointer leads to is not looked at before it is known.
namespace pumice::api {

// Tells the kinds of handles apart by its address.
template <class Handle>
inline constexpr char kind_of_handle = 0;

// Where handles lie. One that was destroyed must not turn into the next one of its kind: languages that
// collect garbage destroy late, and some twice. No template, so that a handle of several kinds has one.
struct HandleMemory {
  static void* operator new(size_t size) { return allocate_fresh(size); }
  static void operator delete(void* handle, size_t size) { free_fresh(handle, size); }
};

// The base of a handle.
template <class Handle>
class Live : public HandleMemory {
public:
  Live() { add_live(this, &kind_of_handle<Handle>); }
  Live(const Live&) : Live() {} // a copy has a life of its own
  Live& operator=(const Live&) { return *this; }
  ~Live() { remove_live(this, &kind_of_handle<Handle>); }
};

// False of null. A pointer that no handle can have is not even converted: that would have no defined result.
template <class Handle>
bool is_live(const Handle* handle) {
  const bool possible = handle && reinterpret_cast<uintptr_t>(handle) % alignof(Handle) == 0;
  return possible && find_live(static_cast<const Live<Handle>*>(handle), &kind_of_handle<Handle>);
}

inline Error dead_handle(const char* name) {
  return {Code::invalid_argument,
          std::string(name) + " is no handle of its kind: it was destroyed, or it is something else"};
}

template <class Handle>
Status check_live(const Handle* handle, const char* name) {
  if (!handle) return null_argument(name);
  return is_live(handle) ? Status() : dead_handle(name);
}

// Destroys a handle that is alive.
template <class Handle>
void destroy_live(Handle* handle) {
  if (is_live(handle)) delete handle;
}

} // namespace pumice::api

#define PUMICE_REQUIRE_LIVE(handle) PUMICE_CHECK(::pumice::api::check_live(handle, #handle))
