#pragma once

#include <string>

#include "api/call.h"

namespace pumice::api {

// What a handle remembers whose functions call a function of the application's. That one may not use the same
// handle, apart from what the header allows.
struct Use {
  bool running = false;   // in a function that has not returned
  bool destroyed = false; // meanwhile; takes effect when that function returns
};

// As call(), for functions that change such a handle or run it. A Handle has `use`, and for messages `name`
// and `callback`.
template <class Handle, class Body>
pumice_status call_exclusive(Handle* handle, pumice_error* error, const Body& body) noexcept {
  if (!handle || handle->use.running) {
    return call(error, [&]() -> Status {
      if (!handle) return null_argument(Handle::name);
      return Error{Code::not_ready, std::string("the ") + Handle::name +
                                        " is in a function that has not returned: call this after " +
                                        Handle::callback + ", or from one thread at a time"};
    });
  }
  handle->use.running = true;
  const pumice_status status = call(error, body);
  handle->use.running = false;
  if (handle->use.destroyed) delete handle;
  return status;
}

// Destroys such a handle. From within a call of the application's function, asks the function that runs to
// end, with Handle::close(), which also keeps it from calling the application again.
template <class Handle>
void destroy(Handle* handle) {
  if (!handle || !handle->use.running) {
    delete handle;
    return;
  }
  handle->use.destroyed = true;
  handle->close();
}

} // namespace pumice::api
