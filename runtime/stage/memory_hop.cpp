#include "stage/memory_hop.h"

namespace pumice {

Result<std::span<std::byte>> MemoryHop::begin(size_t bytes) {
  std::unique_lock lock(mutex_);
  // A message that is being read counts as not received.
  changed_.wait(lock, [&] { return closed_ || sent_ - received_ < places_.size(); });
  if (closed_) return *closed_;
  std::vector<std::byte>& place = places_[sent_ % places_.size()];
  place.resize(bytes);
  return std::span(place);
}

Status MemoryHop::send() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return *closed_;
    ++sent_;
  }
  changed_.notify_all();
  return {};
}

Result<std::span<const std::byte>> MemoryHop::receive() {
  std::unique_lock lock(mutex_);
  if (reading_) {
    reading_ = false;
    ++received_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return closed_ || sent_ > received_; });
  if (sent_ == received_) return *closed_; // what was sent before the end is still received
  reading_ = true;
  return std::span<const std::byte>(places_[received_ % places_.size()]);
}

void MemoryHop::offer(uint32_t session, std::shared_ptr<HopBuffers> places) {
  const std::lock_guard lock(mutex_);
  offered_[session] = std::move(places);
}

std::shared_ptr<HopBuffers> MemoryHop::offered(uint32_t session) {
  const std::lock_guard lock(mutex_);
  const auto found = offered_.extract(session);
  return found ? found.mapped() : nullptr;
}

void MemoryHop::close(Error error) {
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = std::move(error);
  }
  changed_.notify_all();
}

} // namespace pumice
