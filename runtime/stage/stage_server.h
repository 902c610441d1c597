#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "stage/message.h"
#include "step/runner.h"

namespace pumice {

// What all stages of a model must agree on: the name of each thing, and what it is.
using Agreement = std::vector<std::pair<std::string, std::string>>;

// A stage that is not the last one. Computes the steps that arrive, and hands them on, until it is told to
// quit. Its errors go on to the last stage, which ends the sessions.
class StageServer {
public:
  // `name`: of the stage, for its errors. The hops must outlive it.
  StageServer(std::shared_ptr<const Model> model, std::string name, Hop& from, Hop& to,
              Agreement agreement = {})
      : model_(std::move(model)), name_(std::move(name)), from_(from), to_(to),
        agreement_(std::move(agreement)) {}

  // Returns the first error of the stage or of a hop; none after an orderly end. `failed`: why the stage has
  // no model; it only tells the others so, and waits for the end.
  Status run(Status failed = {});
  // A session's runner; null where the stage has nothing to compute for it. Nothing: there is no such
  // session, or it has ended. From any thread, which may use the runner while no message of the session is
  // under way.
  std::optional<std::shared_ptr<Runner>> runner(uint32_t session) const;

private:
  Status tell(const Error& error);
  Status handle(const Message& message);
  Status forward(const Message& message) { return send_message(to_, message.header, message.bytes); }
  Status agree(const Message& message);
  Status begin(const Message& message);
  Status step(const Message& message);
  Status write_block(const Message& message);
  Status move_cached(const Message& message);
  Result<Runner*> runner_of(const Message& message);
  void end(uint32_t session);
  void end_all();

  std::shared_ptr<const Model> model_;
  std::string name_;
  Hop& from_;
  Hop& to_;
  Agreement agreement_;
  mutable std::mutex mutex_; // of the map
  // Null of a decoder's session where the stage has layers of the encoder only.
  std::map<uint32_t, std::shared_ptr<Runner>> sessions_;
  std::map<uint32_t, std::weak_ptr<const Caches>> caches_; // by their number on the last stage
};

std::vector<std::byte> to_bytes(const Agreement& agreement);

} // namespace pumice
