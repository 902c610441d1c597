#include "tools/mpi/mpi_hop.h"

namespace pumice::mpi {

namespace {

Error wrong_end() {
  return Error{Code::internal, "a hop between processes is used at its wrong end"};
}

} // namespace

Status MpiHop::reserve(size_t bytes) {
  if (bytes > INT32_MAX) {
    return Error{Code::unsupported, "a step's message of " + std::to_string(bytes) +
                                        " bytes is too long for MPI: use a smaller --chunk"};
  }
  capacity_ = std::max(capacity_, bytes);
  return {};
}

void MpiHop::close(Error error) {
  const std::lock_guard lock(world_.mutex());
  if (!closed_) closed_ = std::move(error);
}

Result<std::span<std::byte>> MpiHop::begin(size_t) {
  return wrong_end();
}
Status MpiHop::send() {
  return wrong_end();
}
Result<std::span<const std::byte>> MpiHop::receive() {
  return wrong_end();
}

SendingHop::~SendingHop() {
  for (Place& place : places_) {
    if (wait_for(place).ok()) free_requests(place);
  }
}

void SendingHop::free_requests(Place& place) {
  const std::lock_guard lock(world_.mutex());
  for (auto& [length, request] : place.requests) MPI_Request_free(&request);
  place.requests.clear();
}

Status SendingHop::wait_for(Place& place) {
  return world_.wait([&]() -> Result<bool> {
    if (!place.active) return true;
    if (closed_) return *closed_;
    int done = 0;
    PUMICE_CHECK(checked(MPI_Test(place.active, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (!done) {
      PUMICE_CHECK(world_.present(peer_));
      return false;
    }
    place.active = nullptr;
    return true;
  });
}

Status SendingHop::reserve(size_t bytes) {
  const size_t before = capacity_;
  PUMICE_CHECK(MpiHop::reserve(bytes));
  if (capacity_ == before) return {};
  for (Place& place : places_) {
    PUMICE_CHECK(wait_for(place));
    free_requests(place);
    place.bytes.clear();
  }
  return {};
}

Result<std::span<std::byte>> SendingHop::begin(size_t bytes) {
  Place& place = places_[next_];
  PUMICE_CHECK(wait_for(place));
  if (bytes > capacity_) {
    return Error{Code::internal, "a message of " + std::to_string(bytes) + " bytes does not fit the " +
                                     std::to_string(capacity_) + " that were agreed on"};
  }
  place.bytes.resize(capacity_);
  length_ = bytes;
  return std::span(place.bytes).first(bytes);
}

Status SendingHop::send() {
  Place& place = places_[next_];
  next_ = (next_ + 1) % places_.size();
  const std::lock_guard lock(world_.mutex());
  if (closed_) return *closed_;
  const auto [found, added] = place.requests.try_emplace(length_, MPI_REQUEST_NULL);
  if (added) {
    PUMICE_CHECK(checked(MPI_Send_init(place.bytes.data(), static_cast<int>(length_), MPI_BYTE, peer_,
                                       message_tag, world_.comm(), &found->second),
                         "MPI_Send_init"));
  }
  PUMICE_CHECK(checked(MPI_Start(&found->second), "MPI_Start"));
  place.active = &found->second;
  return {};
}

ReceivingHop::~ReceivingHop() {
  for (Place& place : places_) (void)cancel(place);
}

Status ReceivingHop::start(Place& place) {
  const std::lock_guard lock(world_.mutex());
  if (place.active || place.arrived) return {};
  if (place.bytes.size() < capacity_ || place.request == MPI_REQUEST_NULL) {
    if (place.request != MPI_REQUEST_NULL) MPI_Request_free(&place.request);
    place.bytes.resize(capacity_);
    PUMICE_CHECK(checked(MPI_Recv_init(place.bytes.data(), static_cast<int>(capacity_), MPI_BYTE, peer_,
                                       message_tag, world_.comm(), &place.request),
                         "MPI_Recv_init"));
  }
  PUMICE_CHECK(checked(MPI_Start(&place.request), "MPI_Start"));
  place.active = true;
  return {};
}

// A message that has come in spite of it stays in its place.
Status ReceivingHop::cancel(Place& place) {
  const std::lock_guard lock(world_.mutex());
  if (place.active) {
    MPI_Status status;
    int cancelled = 0, count = 0;
    PUMICE_CHECK(checked(MPI_Cancel(&place.request), "MPI_Cancel"));
    PUMICE_CHECK(checked(MPI_Wait(&place.request, &status), "MPI_Wait"));
    PUMICE_CHECK(checked(MPI_Test_cancelled(&status, &cancelled), "MPI_Test_cancelled"));
    place.active = false;
    if (!cancelled) {
      PUMICE_CHECK(checked(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
      place.arrived = static_cast<size_t>(count);
    }
  }
  if (place.request != MPI_REQUEST_NULL) MPI_Request_free(&place.request);
  return {};
}

Status ReceivingHop::reserve(size_t bytes) {
  const size_t before = capacity_;
  PUMICE_CHECK(MpiHop::reserve(bytes));
  if (capacity_ == before) return {};
  return cancel(places_[next_]); // the other one is being read, and gets its room when it starts
}

Result<std::span<const std::byte>> ReceivingHop::receive() {
  Place& place = places_[next_];
  PUMICE_CHECK(start(place));
  PUMICE_CHECK(world_.wait([&]() -> Result<bool> {
    if (place.arrived) return true;
    if (closed_) return *closed_;
    MPI_Status status;
    int done = 0, count = 0;
    PUMICE_CHECK(
        checked(MPI_Test(&place.request, &done, &status), "a message of the wrong length: MPI_Test"));
    if (!done) {
      PUMICE_CHECK(world_.present(peer_));
      return false;
    }
    place.active = false;
    PUMICE_CHECK(checked(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
    place.arrived = static_cast<size_t>(count);
    return true;
  }));
  const size_t bytes = *place.arrived;
  place.arrived.reset();
  next_ = (next_ + 1) % places_.size();
  PUMICE_CHECK(start(places_[next_]));
  return std::span<const std::byte>(place.bytes).first(bytes);
}

} // namespace pumice::mpi
