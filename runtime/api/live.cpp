#include "api/live.h"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>

namespace pumice::api {

namespace {

struct LiveHandles {
  std::shared_mutex mutex;
  std::set<std::pair<const void*, const void*>> all; // and their kinds
};

// Never destroyed: handles of a program's static objects outlive what is.
LiveHandles& live_handles() {
  static LiveHandles& handles = *new LiveHandles;
  return handles;
}

} // namespace

void add_live(const void* handle, const void* kind) {
  LiveHandles& handles = live_handles();
  const std::lock_guard lock(handles.mutex);
  handles.all.emplace(handle, kind);
}

void remove_live(const void* handle, const void* kind) {
  LiveHandles& handles = live_handles();
  const std::lock_guard lock(handles.mutex);
  handles.all.erase({handle, kind});
}

bool find_live(const void* handle, const void* kind) {
  LiveHandles& handles = live_handles();
  const std::shared_lock lock(handles.mutex);
  return handles.all.contains({handle, kind});
}

} // namespace pumice::api
