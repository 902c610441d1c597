#include "plan/hazards.h"

#include <algorithm>

namespace pumice {

namespace {

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.space == b.space && a.allocation == b.allocation && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

bool conflict(const Dispatch::Binding& a, const Dispatch::Binding& b) {
  return (a.access != Access::read || b.access != Access::read) && overlap(a.buffer, b.buffer);
}

} // namespace

bool HazardTracker::add(const Dispatch& dispatch) {
  bool hazard = false;
  for (const Dispatch::Binding& binding : dispatch.bindings) {
    if (binding.buffer.space == Space::weights) continue; // never written
    for (const Dispatch::Binding& earlier : since_barrier_) hazard |= conflict(binding, earlier);
  }
  if (hazard) since_barrier_.clear();
  for (const Dispatch::Binding& binding : dispatch.bindings) {
    if (binding.buffer.space != Space::weights) since_barrier_.push_back(binding);
  }
  return hazard;
}

bool same_launch(const Dispatch& a, const Dispatch& b) {
  const auto same_binding = [](const Dispatch::Binding& x, const Dispatch::Binding& y) {
    return x.slot == y.slot && x.access == y.access && x.buffer.space == y.buffer.space &&
           x.buffer.allocation == y.buffer.allocation && x.buffer.offset == y.buffer.offset &&
           x.buffer.bytes == y.buffer.bytes;
  };
  return a.kernel == b.kernel && a.constants == b.constants && a.params == b.params && a.groups == b.groups &&
         std::ranges::equal(a.bindings, b.bindings, same_binding);
}

bool overwrites(const Dispatch& dispatch, const Dispatch& other) {
  return std::ranges::any_of(dispatch.bindings, [&](const Dispatch::Binding& written) {
    return written.access != Access::read &&
           std::ranges::any_of(other.bindings, [&](const Dispatch::Binding& binding) {
             return overlap(written.buffer, binding.buffer);
           });
  });
}

} // namespace pumice
