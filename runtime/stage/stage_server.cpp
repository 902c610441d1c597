#include "stage/stage_server.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include "base/guarded.h"
#include "io/bytes.h"
#include "step/cache/snapshot.h"
#include "step/encoder.h"
#include "step/step_rows.h"

namespace pumice {

namespace {

// The agreement as lines of a name and what it is, as the other stage sent it.
std::string line_of(const std::string& name, const std::string& value) {
  return name + ": " + value;
}

} // namespace

std::vector<std::byte> to_bytes(const Agreement& agreement) {
  std::string text;
  for (const auto& [name, value] : agreement) text += line_of(name, value) + "\n";
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

// After an error it takes what still arrives, so that nobody waits for it, until everything ends.
Status StageServer::run(Status failed) {
  Status status = failed.ok() ? Status() : tell(failed.error());
  for (;;) {
    const Result<std::span<const std::byte>> received = guarded([&] { return from_.receive(); });
    if (!received.ok()) {
      from_.close(received.error()); // who sends may wait for a place
      to_.close(received.error());
      return status.ok() ? Status(received.error()) : status;
    }
    const Result<Message> message = message_of(*received, from_);
    if (!message.ok()) {
      if (status.ok()) status = tell(message.error());
      continue;
    }
    const MessageKind kind = message->header.kind;
    if (kind == MessageKind::quit || kind == MessageKind::failed) {
      end_all();
      if (kind == MessageKind::failed && status.ok()) status = error_from(message->bytes);
      const Status sent = guarded([&] { return forward(*message); });
      if (kind == MessageKind::quit) return status.ok() ? sent : status;
      continue;
    }
    if (!status.ok()) continue;
    status = guarded([&] { return handle(*message); });
    if (!status.ok()) status = tell(status.error());
  }
}

// Returns the error with the name of the stage.
Status StageServer::tell(const Error& error) {
  end_all();
  const std::string text =
      error.code == Code::cancelled ? "it was told to stop, by Ctrl-C or another signal" : error.text();
  Error named{error.code, fmt::format("{}: {}", name_, text)};
  (void)guarded([&] { return send_message(to_, {MessageKind::failed}, to_bytes(named)); });
  return named;
}

Status StageServer::handle(const Message& message) {
  switch (message.header.kind) {
  case MessageKind::hello:
    return agree(message);
  case MessageKind::begin:
    return begin(message);
  case MessageKind::step:
  case MessageKind::placed:
    return step(message);
  case MessageKind::block:
    return write_block(message);
  case MessageKind::read:
  case MessageKind::write:
    return move_cached(message);
  case MessageKind::prepare: {
    PUMICE_CHECK(forward(message));
    PUMICE_TRY(Runner * runner, runner_of(message));
    return runner ? runner->prepare_all() : Status();
  }
  case MessageKind::end:
    end(message.header.session);
    return forward(message);
  case MessageKind::failed:
  case MessageKind::quit:
    break; // run() has them
  case MessageKind::ask:
  case MessageKind::answer:
    break; // not for stages
  }
  return {};
}

Status StageServer::agree(const Message& message) {
  std::string_view others = as_text(message.bytes);
  for (const auto& [name, value] : agreement_) {
    const std::string_view line = others.substr(0, others.find('\n'));
    others.remove_prefix(std::min(others.size(), line.size() + 1));
    if (line == line_of(name, value)) continue;
    return Error{
        Code::invalid_argument,
        fmt::format("the stages do not fit together: here is '{}', and the last stage has '{}': start "
                    "all of them with the same program, model and options",
                    line_of(name, value), printable(line))};
  }
  Message greeted = message;
  if (model_ && model_->shape().encoder)
    greeted.header.tokens = std::max(greeted.header.tokens, Encoder::position_block(*model_, CacheType::f32));
  return forward(greeted);
}

Status StageServer::begin(const Message& message) {
  PUMICE_TRY(const StageSteps steps, stage_steps_from(message.bytes));
  std::unique_ptr<Runner> runner;
  if (steps.encodes || model_->decodes()) {
    RunnerOptions options;
    if (steps.encodes) options.part = ModelPart::encoder;
    options.size = steps.size;
    options.all_outputs = steps.all_outputs;
    options.readable = steps.readable;
    options.sampling = false;
    options.caches = caches_[steps.caches].lock();
    PUMICE_TRY(runner, Runner::create(model_, std::move(options)));
    caches_[steps.caches] = runner->shared_caches();
  }
  const uint32_t chunk = runner ? runner->size().chunk : steps.size.chunk;
  const uint64_t rows = step_message_bytes(chunk);
  const uint64_t received = runner ? runner->received_bytes(chunk) : 0;
  const uint64_t sent = runner ? runner->sent_bytes(chunk) : 0;
  const uint32_t session = message.header.session;
  std::shared_ptr<HopBuffers> offered = from_.offered(session);
  if (runner) {
    runner->accept_buffers(std::move(offered));
    if (auto places = runner->offer_buffers(to_.import_alignment())) to_.offer(session, std::move(places));
  }
  {
    const std::lock_guard lock(mutex_);
    sessions_[session] = std::move(runner);
  }
  std::erase_if(caches_, [](const auto& each) { return each.second.expired(); });
  // Before the message goes on: steps may come as soon as it has been around.
  PUMICE_CHECK(check_step_bytes(message.header, rows + received, from_));
  PUMICE_CHECK(to_.reserve(rows + sent));
  PUMICE_CHECK(from_.reserve(rows + received));
  MessageHeader header = message.header;
  header.tokens = static_cast<uint32_t>(rows + sent);
  return send_message(to_, header, message.bytes);
}

std::optional<std::shared_ptr<Runner>> StageServer::runner(uint32_t session) const {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? std::nullopt : std::optional(found->second);
}

// Runners wait for their steps at their end, and nobody else has to wait for that.
void StageServer::end(uint32_t session) {
  std::shared_ptr<Runner> ended;
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  ended = std::move(found->second);
  sessions_.erase(found);
}

void StageServer::end_all() {
  std::map<uint32_t, std::shared_ptr<Runner>> ended;
  const std::lock_guard lock(mutex_);
  ended.swap(sessions_);
}

Result<Runner*> StageServer::runner_of(const Message& message) {
  const auto found = sessions_.find(message.header.session);
  if (found == sessions_.end())
    return Error{Code::internal, fmt::format("session {} has not begun", message.header.session)};
  return found->second.get();
}

Status StageServer::step(const Message& message) {
  PUMICE_TRY(Runner * runner, runner_of(message));
  if (!runner) return forward(message);
  StepRows rows{message.header.tokens, {}};
  const uint64_t row_bytes =
      step_message_bytes(std::min(rows.tokens, runner->size().chunk)) - sizeof(MessageHeader);
  PUMICE_TRY(const StageResults results, results_of(message, row_bytes));
  rows.words.resize(row_bytes / 4);
  std::memcpy(rows.words.data(), message.bytes.data(), row_bytes);
  PUMICE_CHECK(runner->write_packed(rows));
  PUMICE_CHECK(runner->write_received(rows, results));
  const std::optional<uint32_t> place = runner->take_place();
  PUMICE_CHECK(runner->submit(rows.tokens));
  MessageHeader header = message.header;
  header.kind = place ? MessageKind::placed : MessageKind::step;
  header.bytes = static_cast<uint32_t>(row_bytes + (place ? sizeof *place : runner->sent_bytes(rows.tokens)));
  PUMICE_TRY(const std::span<std::byte> room, begin_message(to_, header));
  std::memcpy(room.data(), rows.words.data(), row_bytes);
  if (place) {
    PUMICE_CHECK(runner->wait());
    std::memcpy(room.data() + row_bytes, &*place, sizeof *place);
  } else {
    PUMICE_CHECK(runner->read_sent(rows.tokens, room.subspan(row_bytes)));
  }
  return to_.send();
}

Status StageServer::write_block(const Message& message) {
  PUMICE_TRY(Runner * runner, runner_of(message));
  if (runner) {
    std::vector<uint32_t> pieces(message.bytes.size() / 4);
    std::ranges::copy(message.bytes.first(pieces.size() * 4),
                      std::as_writable_bytes(std::span(pieces)).begin());
    PUMICE_CHECK(runner->write_block(pieces));
  }
  return forward(message);
}

Status StageServer::move_cached(const Message& message) {
  PUMICE_TRY(Runner * runner, runner_of(message));
  CachePiece piece;
  if (message.bytes.size() < sizeof piece) return Error{Code::internal, "a piece of a layer is too short"};
  std::memcpy(&piece, message.bytes.data(), sizeof piece);
  const std::span<const std::byte> bytes = message.bytes.subspan(sizeof piece);
  if (!runner) return forward(message);
  if (message.header.kind == MessageKind::write) {
    PUMICE_CHECK(write_cached(*runner, piece, bytes));
    return forward(message);
  }
  std::vector<std::byte> read(bytes.begin(), bytes.end());
  PUMICE_CHECK(read_cached(*runner, piece, read));
  return send_message(to_, message.header, message.bytes.first(sizeof piece), read);
}

} // namespace pumice
