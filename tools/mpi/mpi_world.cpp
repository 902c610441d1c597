#include "tools/mpi/mpi_world.h"

#include <algorithm>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "tools/mpi/mpi_hop.h"

namespace pumice::mpi {

namespace {

constexpr int sign_tag = 1;
constexpr int alive = 1, leaving = 2;

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Sleeps of a thread otherwise take up to 50 microseconds longer than asked for.
void sleep_precisely() {
#ifdef __linux__
  thread_local bool done = false;
  if (!done) prctl(PR_SET_TIMERSLACK, 1000UL);
  done = true;
#endif
}

} // namespace

Status checked(int result, const char* call) {
  if (result == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  return Error{Code::io, std::string(call) + ": " + text};
}

Result<std::unique_ptr<MpiWorld>> MpiWorld::open(double timeout) {
  std::unique_ptr<MpiWorld> world(new MpiWorld(timeout));
  PUMICE_CHECK(world->begin());
  return world;
}

Status MpiWorld::begin() {
  int given = 0, size = 0;
  PUMICE_CHECK(checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread"));
  began_ = true;
  if (given < MPI_THREAD_SERIALIZED) {
    return Error{Code::unsupported,
                 "this MPI library cannot be used by several threads in turn: use one that "
                 "provides MPI_THREAD_SERIALIZED"};
  }
  PUMICE_CHECK(checked(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup"));
  PUMICE_CHECK(checked(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  PUMICE_CHECK(checked(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank"));
  PUMICE_CHECK(checked(MPI_Comm_size(comm_, &size), "MPI_Comm_size"));
  hosts_.resize(static_cast<size_t>(size));
  PUMICE_CHECK(gather_hosts());
  PUMICE_CHECK(begin_signs());
  watcher_ = std::thread([this] { watch(); });
  return {};
}

Status MpiWorld::gather_hosts() {
  char name[MPI_MAX_PROCESSOR_NAME + 1] = "";
  int length = 0;
  PUMICE_CHECK(checked(MPI_Get_processor_name(name, &length), "MPI_Get_processor_name"));
  std::vector<char> all(hosts_.size() * sizeof name);
  PUMICE_CHECK(checked(MPI_Allgather(name, sizeof name, MPI_CHAR, all.data(), sizeof name, MPI_CHAR, comm_),
                       "MPI_Allgather"));
  for (size_t i = 0; i < hosts_.size(); ++i) hosts_[i] = all.data() + i * sizeof name;
  return {};
}

Status MpiWorld::begin_signs() {
  peers_.resize(hosts_.size());
  for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    peer.seen = Clock::now();
    if (rank == rank_) continue;
    PUMICE_CHECK(
        checked(MPI_Recv_init(&peer.heard, 1, MPI_INT, rank, sign_tag, comm_, &peer.from), "MPI_Recv_init"));
    PUMICE_CHECK(
        checked(MPI_Send_init(&peer.said, 1, MPI_INT, rank, sign_tag, comm_, &peer.to), "MPI_Send_init"));
    PUMICE_CHECK(checked(MPI_Start(&peer.from), "MPI_Start"));
  }
  return {};
}

// Under the lock.
Status MpiWorld::exchange_signs(Clock::time_point now) {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if (static_cast<int>(rank) == rank_) continue;
    int done = 0;
    if (peer.sending) {
      PUMICE_CHECK(checked(MPI_Test(&peer.to, &done, MPI_STATUS_IGNORE), "MPI_Test"));
      peer.sending = !done;
    }
    if (peer.left) continue;
    PUMICE_CHECK(checked(MPI_Test(&peer.from, &done, MPI_STATUS_IGNORE), "MPI_Test"));
    if (done) {
      peer.seen = now;
      peer.left = peer.heard == leaving;
      if (!peer.left) PUMICE_CHECK(checked(MPI_Start(&peer.from), "MPI_Start"));
    }
    if (peer.left || std::chrono::duration<double>(now - peer.seen).count() < timeout_) continue;
    return Error{Code::io, name(static_cast<uint32_t>(rank)) + " has given no sign of life for " +
                               number_text(timeout_) +
                               " s: it has ended or hangs, or the link to it is down (--timeout)"};
  }
  return {};
}

// MPI's library makes progress with messages while it is called.
void MpiWorld::watch() {
  const auto interval = std::chrono::duration<double>(std::min(timeout_ / 10, 0.5));
  constexpr std::chrono::microseconds transferring(200), idle(2000);
  Clock::time_point next = Clock::now();
  for (;;) {
    bool transfers = false;
    {
      const std::lock_guard lock(mutex_);
      transfers = leaving_;
      if (ending_) return;
      const Clock::time_point now = Clock::now();
      const Status status = exchange_signs(now);
      if (!status.ok() && !gone_) gone_ = status.error();
      for (const auto& [hop, advance] : watched_) transfers = advance() || transfers;
      if (now >= next || leaving_) {
        next = now + std::chrono::duration_cast<Clock::duration>(interval);
        for (Peer& peer : peers_) {
          if (peer.to == MPI_REQUEST_NULL || peer.sending || peer.said == leaving) continue;
          peer.said = leaving_ ? leaving : alive;
          peer.sending = MPI_Start(&peer.to) == MPI_SUCCESS;
        }
      }
    }
    std::this_thread::sleep_for(transfers ? transferring : idle);
  }
}

void MpiWorld::watch_over(const void* hop, std::function<bool()> advance) {
  const std::lock_guard lock(mutex_);
  if (advance) {
    watched_[hop] = std::move(advance);
  } else {
    watched_.erase(hop);
  }
}

Status MpiWorld::present(int rank) const {
  const Peer& peer = peers_[static_cast<size_t>(rank)];
  constexpr auto enough = std::chrono::seconds(1);
  if (!peer.left || Clock::now() - peer.seen < enough) return {};
  return Error{Code::io, name(static_cast<uint32_t>(rank)) + " has ended before the work was done"};
}

Status MpiWorld::wait(const std::function<Result<bool>()>& test) {
  using std::chrono::microseconds;
  constexpr microseconds busy(100), shortest(20), longest(1000);
  const Clock::time_point start = Clock::now();
  sleep_precisely();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      PUMICE_TRY(const bool done, test());
      if (done) return {};
      if (gone_) return *gone_;
    }
    const auto waited = std::chrono::duration_cast<microseconds>(Clock::now() - start);
    if (waited < busy) {
      std::this_thread::yield();
    } else { // a fiftieth later than it could
      std::this_thread::sleep_for(std::clamp(waited / 50, shortest, longest));
    }
  }
}

Result<std::unique_ptr<Hop>> MpiWorld::hop_to(uint32_t rank) {
  return std::unique_ptr<Hop>(std::make_unique<SendingHop>(*this, static_cast<int>(rank)));
}

Result<std::unique_ptr<Hop>> MpiWorld::hop_from(uint32_t rank) {
  return std::unique_ptr<Hop>(std::make_unique<ReceivingHop>(*this, static_cast<int>(rank)));
}

void MpiWorld::leave() {
  const std::lock_guard lock(mutex_);
  leaving_ = true;
}

// After an orderly end all processes come here. If one is gone, MPI's own end would wait for it.
void MpiWorld::finish() {
  leave();
  const Clock::time_point start = Clock::now();
  (void)wait([&]() -> Result<bool> {
    const bool waited = std::chrono::duration<double>(Clock::now() - start).count() > timeout_;
    if (waited && !gone_) gone_ = Error{Code::io, "not all processes ended"};
    return all_left();
  });
}

bool MpiWorld::all_left() const {
  return std::ranges::all_of(peers_, [](const Peer& peer) {
    return peer.to == MPI_REQUEST_NULL || (peer.left && peer.said == leaving && !peer.sending);
  });
}

Status MpiWorld::wait_for_all() {
  leave();
  return wait([this] { return Result<bool>(all_left()); });
}

MpiWorld::~MpiWorld() {
  if (!began_) return;
  if (watcher_.joinable()) {
    finish();
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    watcher_.join();
  }
  if (gone_) return; // MPI_Finalize would wait for whoever is gone
  for (Peer& peer : peers_) {
    if (peer.from != MPI_REQUEST_NULL) MPI_Request_free(&peer.from);
    if (peer.to != MPI_REQUEST_NULL) MPI_Request_free(&peer.to);
  }
  MPI_Finalize();
}

} // namespace pumice::mpi

extern "C" __attribute__((visibility("default"))) pumice::Processes*
pumice_open_processes(const char* version, double timeout, std::string* why) {
  if (std::string(version) != PUMICE_MPI_VERSION) {
    *why = std::string("it is of version ") + PUMICE_MPI_VERSION + ", and the program of version " + version;
    return nullptr;
  }
  auto world = pumice::mpi::MpiWorld::open(timeout);
  if (world.ok()) return world->release();
  *why = world.error().message;
  return nullptr;
}
