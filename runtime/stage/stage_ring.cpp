#include "stage/stage_ring.h"

#include <algorithm>

#include "base/guarded.h"

namespace pumice {

class StageRing::Steps : public UpstreamSteps {
public:
  Steps(StageRing& ring, uint32_t session, const Session& state)
      : ring_(ring), session_(session), state_(state) {}
  ~Steps() override {
    (void)guarded([&] { ring_.end(session_); });
  }

  Status send(const StepRows& rows) override {
    const std::lock_guard lock(ring_.mutex_);
    return ring_.send({MessageKind::step, session_, rows.tokens}, std::as_bytes(std::span(rows.words)),
                      std::as_bytes(std::span(rows.values)));
  }
  Status write_block(std::span<const uint32_t> pieces) override {
    const std::lock_guard lock(ring_.mutex_);
    return ring_.send({MessageKind::block, session_}, std::as_bytes(pieces));
  }
  Status wait() override {
    const std::lock_guard lock(ring_.mutex_);
    return ring_.wait_for_one(session_);
  }
  Status read_cached(const CachePiece& piece, std::span<std::byte> to) override {
    const std::lock_guard lock(ring_.mutex_);
    return ring_.read_cached(session_, piece, to);
  }
  Status write_cached(const CachePiece& piece, std::span<const std::byte> from) override {
    const std::lock_guard lock(ring_.mutex_);
    return ring_.write_cached(session_, piece, from);
  }
  Error tell(const Error& error) override { return ring_.tell(error); }
  std::shared_ptr<HopBuffers> places() const override {
    const std::lock_guard lock(ring_.mutex_);
    return ring_.sessions_.at(session_).places;
  }
  // A stage hands on the first message before it has done what that asks for, but the second one after it.
  Status prepare_all() override {
    const std::lock_guard lock(ring_.mutex_);
    PUMICE_CHECK(ring_.send({MessageKind::prepare, session_}, {}));
    return ring_.send({MessageKind::block, session_}, {});
  }
  Status settle() override { return ring_.settle(state_, session_); }
  Result<Runners> runners() override { return ring_.runners(state_, session_); }

private:
  StageRing& ring_;
  const uint32_t session_;
  const Session& state_;
};

Result<std::unique_ptr<UpstreamSteps>> StageRing::begin(const StageSteps& steps, Receive receive) {
  const std::lock_guard lock(mutex_);
  const uint32_t id = next_session_++;
  Session& session = sessions_[id];
  session.receive = std::move(receive);
  session.message_bytes = step_message_bytes(steps.size.chunk) + steps.received_bytes;
  session.caches = steps.caches;
  const std::vector<std::byte> bytes = to_bytes(steps);
  const Status begun = guarded([&]() -> Status {
    const uint64_t sent = step_message_bytes(steps.size.chunk) + steps.value_bytes;
    PUMICE_CHECK(send({MessageKind::begin, id, static_cast<uint32_t>(sent)}, bytes));
    PUMICE_CHECK(first_.reserve(sent));
    while (!session.began) PUMICE_CHECK(receive_one(id));
    return {};
  });
  if (begun.ok()) return std::unique_ptr<UpstreamSteps>(std::make_unique<Steps>(*this, id, session));
  sessions_.erase(id); // the stages have failed, so none is left to end it there
  return begun.error();
}

// All stages together have room for so many messages that a stage never waits for a place while this waits
// for it.
Status StageRing::send(MessageHeader header, std::span<const std::byte> bytes,
                       std::span<const std::byte> more) {
  while (under_way_ > stages()) PUMICE_CHECK(receive_one(header.session));
  if (failed_) return *failed_;
  if (Status sent = send_message(first_, header, bytes, more); !sent.ok()) return fail(sent.error());
  ++under_way_;
  if (const auto found = sessions_.find(header.session); found != sessions_.end()) ++found->second.under_way;
  return {};
}

Status StageRing::wait_for_one(uint32_t session) {
  std::deque<Arrived>& arrived = arrived_[sessions_.at(session).caches];
  if (arrived.empty()) return receive_one(session);
  const Arrived step = std::move(arrived.front());
  arrived.pop_front();
  const auto found = sessions_.find(step.session);
  return found == sessions_.end() ? Status() : take(found->second, step.tokens, {step.bytes, step.place});
}

// Without the lock if nothing is under way, so that it waits for no other thread then.
Status StageRing::settle(const Session& session, uint32_t id) {
  if (session.under_way == 0) return {};
  const std::lock_guard lock(mutex_);
  while (session.under_way > 0) PUMICE_CHECK(receive_one(id));
  return {};
}

Result<StageRing::Runners> StageRing::runners(const Session& session, uint32_t id) {
  if (devices().empty()) {
    return Error{Code::unsupported, "steps go through these stages only whole, and not in slices of time"};
  }
  PUMICE_CHECK(settle(session, id));
  if (const std::optional<Runners> all = runners_of(id)) return *all;
  const std::lock_guard lock(mutex_);
  for (;;) PUMICE_CHECK(receive_one(id)); // the error is on its way
}

Status StageRing::take(Session& session, uint32_t tokens, const StageResults& results) {
  const Status taken = session.receive(tokens, results);
  return taken.ok() ? taken : tell_locked(taken.error());
}

// `session`: of the thread that receives.
Status StageRing::receive_one(uint32_t session) {
  if (failed_) return *failed_;
  const Result<std::span<const std::byte>> bytes = last_.receive();
  if (!bytes.ok()) return fail(bytes.error());
  const Result<Message> message = message_of(*bytes, last_);
  if (!message.ok()) return tell_locked(message.error());
  // The stages before the one that failed have not heard it.
  if (message->header.kind == MessageKind::failed) return fail_all(error_from(message->bytes));
  if (under_way_ > 0) --under_way_;
  return received(*message, session);
}

Status StageRing::received(const Message& message, uint32_t receiver) {
  if (message.header.kind == MessageKind::hello) {
    greeted_ = true;
    position_block_ = message.header.tokens;
  }
  if (message.header.kind == MessageKind::quit) quit_ = true;
  if (message.header.kind == MessageKind::end) ending_.erase(message.header.session);
  const auto found = sessions_.find(message.header.session);
  if (found == sessions_.end()) return {}; // it has ended
  Session& session = found->second;
  if (session.under_way > 0) --session.under_way;
  if (message.header.kind == MessageKind::begin) {
    session.began = true;
    if (Status same = check_step_bytes(message.header, session.message_bytes, last_); !same.ok())
      return tell_locked(same.error());
    session.places = last_.offered(message.header.session);
    return last_.reserve(session.message_bytes);
  }
  if (message.header.kind == MessageKind::read) {
    const std::span<const std::byte> bytes =
        message.bytes.subspan(std::min(message.bytes.size(), sizeof(CachePiece)));
    if (bytes.size() != wanted_.size())
      return tell_locked({Code::internal, "a piece of a layer has another length"});
    std::ranges::copy(bytes, wanted_.begin());
    wanted_ = {};
  }
  if (message.header.kind != MessageKind::step && message.header.kind != MessageKind::placed) return {};
  const uint64_t rows = step_message_bytes(message.header.tokens) - sizeof(MessageHeader);
  const Result<StageResults> results = results_of(message, rows);
  if (!results.ok()) return tell_locked(results.error());
  if (!own_steps_) return take(session, message.header.tokens, *results);
  const auto receiving = sessions_.find(receiver);
  const bool same_caches = receiving != sessions_.end() && receiving->second.caches == session.caches;
  std::deque<Arrived>& arrived = arrived_[session.caches];
  // Otherwise those come first.
  if (same_caches && arrived.empty()) return take(session, message.header.tokens, *results);
  const std::span<const std::byte> bytes = results->bytes;
  arrived.push_back(
      {message.header.session, message.header.tokens, {bytes.begin(), bytes.end()}, results->place});
  return {};
}

// As many bytes at a time as every hop has room for.
constexpr size_t most_cached_bytes = small_message_bytes - sizeof(MessageHeader) - sizeof(CachePiece);

Status StageRing::read_cached(uint32_t session, const CachePiece& piece, std::span<std::byte> to) {
  for (CachePiece next = piece; !to.empty();) {
    wanted_ = to.first(std::min(to.size(), most_cached_bytes));
    const size_t count = wanted_.size();
    PUMICE_CHECK(send({MessageKind::read, session}, std::as_bytes(std::span(&next, 1)), wanted_));
    while (!wanted_.empty()) PUMICE_CHECK(receive_one(session));
    next.offset += count;
    to = to.subspan(count);
  }
  return {};
}

Status StageRing::write_cached(uint32_t session, const CachePiece& piece, std::span<const std::byte> from) {
  for (CachePiece next = piece; !from.empty();) {
    const std::span<const std::byte> part = from.first(std::min(from.size(), most_cached_bytes));
    PUMICE_CHECK(send({MessageKind::write, session}, std::as_bytes(std::span(&next, 1)), part));
    next.offset += part.size();
    from = from.subspan(part.size());
  }
  return {};
}

// All that follows gets the first error.
Status StageRing::fail(const Error& error) {
  if (!failed_) failed_ = error;
  return *failed_;
}

Error StageRing::tell_locked(const Error& error) {
  if (failed_) return *failed_;
  return fail_all(own_name_.empty() ? error : Error{error.code, own_name_ + ": " + error.text()});
}

Error StageRing::fail_all(Error error) {
  failed_ = std::move(error);
  (void)guarded([&] { return send_message(first_, {MessageKind::failed}, to_bytes(*failed_)); });
  return *failed_;
}

Error StageRing::tell(const Error& error) {
  const std::lock_guard lock(mutex_);
  return tell_locked(error);
}

Status StageRing::greet(const Agreement& agreement) {
  const std::lock_guard lock(mutex_);
  PUMICE_CHECK(send({MessageKind::hello}, to_bytes(agreement)));
  while (!greeted_) PUMICE_CHECK(receive_one(next_session_));
  return {};
}

void StageRing::end(uint32_t session) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const uint32_t caches = found->second.caches;
  sessions_.erase(found);
  const bool last =
      std::ranges::none_of(sessions_, [&](const auto& other) { return other.second.caches == caches; });
  if (last) arrived_.erase(caches);
  if (!send({MessageKind::end, session}, {}).ok() || !own_steps_) return;
  // Its memory on the other devices is the application's to use again.
  ending_.insert(session);
  while (ending_.contains(session) && receive_one(session).ok()) {
  }
  ending_.erase(session);
}

// After an error the stages still hear that it is over.
void StageRing::quit() {
  const std::lock_guard lock(mutex_);
  const bool broken = failed_.has_value();
  if (broken) last_.close(*failed_); // nobody receives the rest, which stages would wait to hand on
  if (!send_message(first_, {MessageKind::quit}).ok() || broken) return;
  while (!quit_ && receive_one(next_session_).ok()) {
  }
}

} // namespace pumice
