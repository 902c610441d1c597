#include "tools/mpi/mpi_hop.h"

#include "base/guarded.h"

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
  const std::lock_guard lock(world_.mutex());
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

SendingHop::SendingHop(MpiWorld& world, int peer) : MpiHop(world, peer) {
  world_.watch_over(this, [this] { return advance(); });
}

SendingHop::~SendingHop() {
  world_.watch_over(this, {});
  for (Place& place : places_) {
    if (wait_for(place).ok()) free_requests(place);
  }
}

// An error comes again to whoever waits for the place.
bool SendingHop::advance() {
  bool sending = false;
  for (Place& place : places_) {
    const Result<bool> sent = test(place);
    sending = sending || (sent.ok() && !*sent);
  }
  return sending;
}

void SendingHop::free_requests(Place& place) {
  const std::lock_guard lock(world_.mutex());
  for (auto& [length, request] : place.requests) MPI_Request_free(&request);
  place.requests.clear();
}

Result<bool> SendingHop::test(Place& place) {
  if (!place.active) return true;
  int done = 0;
  PUMICE_CHECK(checked(MPI_Test(place.active, &done, MPI_STATUS_IGNORE), "MPI_Test"));
  if (done) place.active = nullptr;
  return done != 0;
}

Status SendingHop::wait_for(Place& place) {
  return world_.wait([&]() -> Result<bool> {
    if (!place.active) return true;
    if (closed_) return *closed_;
    PUMICE_TRY(const bool sent, test(place));
    if (!sent) PUMICE_CHECK(world_.present(peer_));
    return sent;
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

ReceivingHop::ReceivingHop(MpiWorld& world, int peer) : MpiHop(world, peer) {
  world_.watch_over(this, [this] { return advance(); });
}

ReceivingHop::~ReceivingHop() {
  world_.watch_over(this, {});
  const std::lock_guard lock(world_.mutex());
  for (Place& place : places_) {
    if (place.state != State::arriving) continue;
    // A message that was matched cannot be cancelled, so its place has to stay while it may be written.
    int done = 0;
    if (MPI_Test(&place.request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done)
      world_.keep(std::move(place.bytes));
  }
}

Status ReceivingHop::begin_to_arrive(Place& place) {
  int found = 0, count = 0;
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status;
  PUMICE_CHECK(
      checked(MPI_Improbe(peer_, message_tag, world_.comm(), &found, &message, &status), "MPI_Improbe"));
  if (!found) return {};
  PUMICE_CHECK(checked(MPI_Get_count(&status, MPI_BYTE, &count), "MPI_Get_count"));
  place.length = static_cast<size_t>(count);
  if (count < 0 || place.length > capacity_) {
    return Error{Code::internal, "a message from " + sender() + " has " + std::to_string(count) +
                                     " bytes: at most " + std::to_string(capacity_) + " were agreed on"};
  }
  place.bytes.resize(capacity_);
  PUMICE_CHECK(
      checked(MPI_Imrecv(place.bytes.data(), count, MPI_BYTE, &message, &place.request), "MPI_Imrecv"));
  place.state = State::arriving;
  return {};
}

Status ReceivingHop::advance(Place& place) {
  if (place.state == State::free) PUMICE_CHECK(begin_to_arrive(place));
  if (place.state != State::arriving) return {};
  int done = 0;
  PUMICE_CHECK(checked(MPI_Test(&place.request, &done, MPI_STATUS_IGNORE), "MPI_Test"));
  if (done) place.state = State::arrived;
  return {};
}

bool ReceivingHop::advance() {
  bool arriving = false;
  for (size_t i = 0; i < places_.size() && !closed_; ++i) {
    Place& place = places_[(next_ + i) % places_.size()];
    if (Status status = guarded([&] { return advance(place); }); !status.ok()) closed_ = status.error();
    arriving = arriving || place.state == State::arriving;
    if (place.state == State::free) break; // what comes next would be out of order
  }
  return arriving;
}

Result<std::span<const std::byte>> ReceivingHop::receive() {
  Place& place = places_[next_];
  PUMICE_CHECK(world_.wait([&]() -> Result<bool> {
    Place& other = places_[(next_ + 1) % places_.size()];
    if (other.state == State::read) other.state = State::free;
    advance();
    if (place.state == State::arrived) return true;
    if (closed_) return *closed_;
    if (place.state == State::free) PUMICE_CHECK(world_.present(peer_));
    return false;
  }));
  const std::lock_guard lock(world_.mutex());
  place.state = State::read;
  next_ = (next_ + 1) % places_.size();
  return std::span<const std::byte>(place.bytes).first(place.length);
}

} // namespace pumice::mpi
