#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "tools/mpi/mpi_world.h"

namespace pumice::mpi {

// What both ends have: two places for messages. The size of a place is that of the longest message.
class MpiHop : public Hop {
public:
  MpiHop(MpiWorld& world, int peer) : world_(world), peer_(peer) {}
  Status reserve(size_t bytes) override;
  void close(Error error) override;
  Result<std::span<std::byte>> begin(size_t bytes) override;
  Status send() override;
  Result<std::span<const std::byte>> receive() override;
  std::string sender() const override { return world_.name(static_cast<uint32_t>(peer_)); }

protected:
  static constexpr int message_tag = 2;

  std::optional<Error> closed();

  MpiWorld& world_;
  const int peer_;
  // Under the world's lock.
  size_t capacity_ = small_message_bytes;
  std::optional<Error> closed_;
};

// A persistent request for each place and length of a message: the lengths of steps repeat.
class SendingHop : public MpiHop {
public:
  SendingHop(MpiWorld& world, int peer);
  ~SendingHop() override;
  Status reserve(size_t bytes) override;
  Result<std::span<std::byte>> begin(size_t bytes) override;
  Status send() override;

private:
  struct Place {
    std::vector<std::byte> bytes;
    std::map<size_t, MPI_Request> requests; // by length
    MPI_Request* active = nullptr;
  };
  bool advance(); // under the lock
  Result<bool> test(Place& place);
  Status wait_for(Place& place);
  void free_requests(Place& place);

  std::array<Place, 2> places_;
  size_t next_ = 0; // place
  size_t length_ = 0;
};

// While one place is read, a message may arrive in the other one. A message is looked at before MPI may write
// it: Open MPI's large transfers write all of a message that is too long, over what follows its place.
class ReceivingHop : public MpiHop {
public:
  ReceivingHop(MpiWorld& world, int peer);
  ~ReceivingHop() override;
  Result<std::span<const std::byte>> receive() override;

private:
  enum class State { free, arriving, arrived, read };
  struct Place {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL; // while arriving
    size_t length = 0;
    State state = State::free;
  };
  // Under the lock. What has come goes to the free places, in its order. An error closes the hop.
  bool advance();
  Status advance(Place& place);
  Status begin_to_arrive(Place& place);

  std::array<Place, 2> places_;
  size_t next_ = 0; // place
};

} // namespace pumice::mpi
