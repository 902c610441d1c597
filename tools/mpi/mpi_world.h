#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "stage/processes.h"

namespace pumice::mpi {

using Clock = std::chrono::steady_clock;

// An MPI call's error as a sentence; none if it succeeded.
Status checked(int result, const char* call);

// The processes that mpirun started. All MPI calls are made under one lock. A thread of each process gives
// the others a sign of life, notices when theirs stop, and so also drives the progress of messages.
class MpiWorld : public Processes {
public:
  static Result<std::unique_ptr<MpiWorld>> open(double timeout);
  ~MpiWorld() override;

  uint32_t rank() const override { return static_cast<uint32_t>(rank_); }
  uint32_t size() const override { return static_cast<uint32_t>(hosts_.size()); }
  std::string host(uint32_t rank) const override { return hosts_[rank]; }
  Result<std::unique_ptr<Hop>> hop_to(uint32_t rank) override;
  Result<std::unique_ptr<Hop>> hop_from(uint32_t rank) override;
  void leave() override;
  Status wait_for_all() override;

  MPI_Comm comm() const { return comm_; }
  std::mutex& mutex() { return mutex_; }
  // Under the lock: an error once a process has said goodbye, and what it sent before must have arrived.
  Status present(int rank) const;
  // Calls `advance` under the lock again and again, until it is given none: it makes progress with messages,
  // and tells whether one is on its way. Then it is called more often. Not under the lock.
  void watch_over(const void* hop, std::function<bool()> advance);
  // Under the lock: memory that MPI may still write.
  void keep(std::vector<std::byte> bytes) { kept_.push_back(std::move(bytes)); }
  // Waits until `test` says that a request is done. It is called under the lock, often at first. Ends with
  // the error of a process that is gone.
  Status wait(const std::function<Result<bool>()>& test);

private:
  explicit MpiWorld(double timeout) : timeout_(timeout) {}
  Status begin();
  Status gather_hosts();
  Status begin_signs();
  Status exchange_signs(Clock::time_point now);
  void watch();
  bool all_left() const;
  void finish();

  // Signs of life from and to another process.
  struct Peer {
    MPI_Request from = MPI_REQUEST_NULL, to = MPI_REQUEST_NULL;
    int heard = 0, said = 0; // the signs: alive, or leaving
    bool sending = false;
    bool left = false;
    Clock::time_point seen;
  };

  const double timeout_;
  int rank_ = 0;
  bool began_ = false;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<std::string> hosts_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::map<const void*, std::function<bool()>> watched_; // hops
  std::vector<std::vector<std::byte>> kept_;
  std::optional<Error> gone_; // which process is, and why
  bool leaving_ = false, ending_ = false;
  std::thread watcher_;
};

} // namespace pumice::mpi
