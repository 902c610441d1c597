#include "base/live_objects.h"

#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>

namespace pumice {

namespace {

struct LiveObjects {
  std::shared_mutex mutex;
  std::set<std::pair<const void*, const void*>> all; // and their kinds
};

// Never destroyed: objects of a program's static objects outlive what is.
LiveObjects& live_objects() {
  static LiveObjects& objects = *new LiveObjects;
  return objects;
}

} // namespace

void add_live(const void* object, const void* kind) {
  LiveObjects& objects = live_objects();
  const std::lock_guard lock(objects.mutex);
  objects.all.emplace(object, kind);
}

void remove_live(const void* object, const void* kind) {
  LiveObjects& objects = live_objects();
  const std::lock_guard lock(objects.mutex);
  objects.all.erase({object, kind});
}

bool find_live(const void* object, const void* kind) {
  LiveObjects& objects = live_objects();
  const std::shared_lock lock(objects.mutex);
  return objects.all.contains({object, kind});
}

} // namespace pumice
