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
  size_t capacity_ = small_message_bytes;
  std::optional<Error> closed_; // under the world's lock
};

// A persistent request for each place and length of a message: the lengths of steps repeat.
class SendingHop : public MpiHop {
public:
  using MpiHop::MpiHop;
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
  Status wait_for(Place& place);
  void free_requests(Place& place);

  std::array<Place, 2> places_;
  size_t next_ = 0; // place
  size_t length_ = 0;
};

// While one place is read, the request of the other one is active already.
class ReceivingHop : public MpiHop {
public:
  using MpiHop::MpiHop;
  ~ReceivingHop() override;
  Status reserve(size_t bytes) override;
  Result<std::span<const std::byte>> receive() override;

private:
  struct Place {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
    bool active = false;
    std::optional<size_t> arrived; // bytes
  };
  Status start(Place& place);
  Status cancel(Place& place);

  std::array<Place, 2> places_;
  size_t next_ = 0; // place
};

} // namespace pumice::mpi
