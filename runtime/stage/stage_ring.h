#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "stage/message.h"
#include "stage/stage_server.h"
#include "step/upstream_steps.h"

namespace pumice {

// The stages before the last one, as the last one sees them: a hop to the first of them and a hop from the
// last of them. All messages go around once. Sessions of one model are used by one thread at a time; of a
// ring in which sessions take their own steps, each of them is, and together those that share caches.
class StageRing : public StepUpstream {
public:
  // `names`: of the stages. `position_block`: 0 if greet() finds it. `own_name`: of the last stage, for its
  // errors; empty: they need none.
  StageRing(Hop& first, Hop& last, std::vector<std::string> names, uint32_t position_block = 0,
            std::string own_name = "")
      : first_(first), last_(last), names_(std::move(names)), own_name_(std::move(own_name)),
        position_block_(position_block) {}

  // Before the first session: sessions of several threads share the ring, so that none takes a step of
  // another one, and each waits until the stages have ended it.
  void let_sessions_take_own_steps() { own_steps_ = true; }

  uint32_t stages() const override { return static_cast<uint32_t>(names_.size()); }
  std::vector<std::string> describe() const override { return names_; }
  uint32_t position_block() const override { return position_block_; }
  Result<std::unique_ptr<UpstreamSteps>> begin(const StageSteps& steps, Receive receive) override;

  // Sends what the stages must agree on, and waits until all have.
  Status greet(const Agreement& agreement);
  // All stages end with this error of the last one. Returns it with that stage's name.
  Error tell(const Error& error);
  // Ends all stages, and waits for that.
  void quit();

protected:
  using Runners = std::vector<std::shared_ptr<Runner>>;
  // The runners of a session on all stages, if there are devices(). Nothing: a stage has failed, and ended
  // it.
  virtual std::optional<Runners> runners_of(uint32_t) const { return {}; }

private:
  class Steps;
  struct Arrived {
    uint32_t session = 0;
    uint32_t tokens = 0;
    std::vector<std::byte> bytes;
    std::optional<uint32_t> place; // instead of bytes
  };
  struct Session {
    Receive receive;
    uint64_t message_bytes = 0; // that a step has at most when it arrives
    uint32_t caches = 0;        // StageSteps::caches
    bool began = false;
    std::shared_ptr<HopBuffers> places = {};
    std::atomic<uint32_t> under_way = 0; // its messages that have not come around
  };

  Status send(MessageHeader header, std::span<const std::byte> bytes, std::span<const std::byte> more = {});
  Status wait_for_one(uint32_t session);
  Status settle(const Session& session, uint32_t id);
  Result<Runners> runners(const Session& session, uint32_t id);
  Status take(Session& session, uint32_t tokens, const StageResults& results);
  Status receive_one(uint32_t session);
  Status received(const Message& message, uint32_t receiver);
  Error tell_locked(const Error& error);
  Error fail_all(Error error); // the first error: all stages hear it
  Status fail(const Error& error);
  void end(uint32_t session);
  Status read_cached(uint32_t session, const CachePiece& piece, std::span<std::byte> to);
  Status write_cached(uint32_t session, const CachePiece& piece, std::span<const std::byte> from);

  bool own_steps_ = false;
  Hop& first_;
  Hop& last_;
  const std::vector<std::string> names_;
  const std::string own_name_;
  uint32_t position_block_;
  std::mutex mutex_;
  std::map<uint32_t, Session> sessions_;
  // Steps that another thread has received, by the caches of their sessions. A translation's first step has
  // to come before those that read what its input's step writes.
  std::map<uint32_t, std::deque<Arrived>> arrived_;
  std::set<uint32_t> ending_; // that somebody waits for
  uint32_t next_session_ = 0;
  uint32_t under_way_ = 0; // messages that have not come around
  bool greeted_ = false, quit_ = false;
  std::span<std::byte> wanted_; // what read_cached() waits for; empty: nothing
  std::optional<Error> failed_;
};

} // namespace pumice
