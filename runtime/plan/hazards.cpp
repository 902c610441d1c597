#include "plan/hazards.h"

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

} // namespace pumice
