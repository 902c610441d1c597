#pragma once

#include <string>

#include "api/live.h"
#include "step/work/work.h"

// A handle of what runs in slices. A function of the application's that it calls may not use the same handle,
// apart from what the header allows.
struct pumice_work : pumice::Work, pumice::api::Live<pumice_work> {
  static constexpr const char* name = "work";

  // `handle` and `function`: what it is, and what it calls, for messages.
  explicit pumice_work(const char* handle, const char* function = nullptr)
      : handle_name(handle), function_name(function) {}
  // Asks the function that runs to end, and calls the application no more.
  virtual void close() { cancel(); }

  const char* const handle_name;
  const char* const function_name; // null: it calls none
  bool running = false;            // in a function that has not returned
  bool destroyed = false;          // meanwhile; takes effect when that function returns
};

namespace pumice::api {

// Why a handle that runs cannot be used.
Error running_error(const pumice_work& work);

// As call(), for functions that change such a handle or run it. A Handle has `name`, for messages.
template <class Handle, class Body>
pumice_status call_exclusive(Handle* handle, pumice_error* error, const Body& body) noexcept {
  if (!is_live(handle)) return call(error, [&] { return check_live(handle, Handle::name); });
  if (handle->running) return call(error, [&]() -> Status { return running_error(*handle); });
  handle->running = true;
  const pumice_status status = call(error, body);
  handle->running = false;
  if (handle->destroyed) delete handle;
  return status;
}

// Destroys such a handle. From within a call of the application's function, asks the function that runs to
// end.
template <class Handle>
void destroy(Handle* handle) {
  if (!is_live(handle)) return;
  if (!handle->running) {
    delete handle;
    return;
  }
  handle->destroyed = true;
  handle->close();
}

} // namespace pumice::api
