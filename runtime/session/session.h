#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "kernel/sampling.h"
#include "session/runner.h"

namespace pumice {

struct SessionOptions {
  SessionSize size; // of one sequence
  // Steps that are submitted before the host has read the tokens they start from. They keep the device busy
  // while the host looks at a token; those after a stop are thrown away.
  uint32_t steps_ahead = 2;
};

// One conversation: its tokens, its KV cache and the decoding loop. Sampling happens on the device and a
// step's token is the next step's input there, so the host only submits the same recording again and reads
// tokens behind it. Used by one thread at a time.
class Session {
public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, SessionOptions options);
  ~Session();

  // Adds tokens to the conversation, in chunks of size().chunk, and prepares the first token after them. They
  // have to fit the context with one position to spare.
  Status prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                 const Progress& progress = {});
  // The next token of the conversation; it becomes a part of it.
  Result<uint32_t> next();
  // Forgets everything said so far.
  Status reset();

  std::span<const uint32_t> tokens() const { return tokens_; }
  const SessionSize& size() const { return runner_->size(); }
  bool full() const { return tokens_.size() >= size().context; }
  Runner& runner() { return *runner_; }

  // The host's own time between the end of one step's wait and the submission of another, and how often it
  // was taken.
  double host_seconds() const { return host_seconds_; }
  uint64_t decode_steps() const { return decode_steps_; }

private:
  Session(std::unique_ptr<Runner> runner, SessionOptions options)
      : runner_(std::move(runner)), options_(options), sampling_state_(runner_->sampling_memory()) {}
  Status settle();
  Status submit_decode();

  std::unique_ptr<Runner> runner_;
  SessionOptions options_;
  SamplingState sampling_state_;
  std::vector<uint32_t> tokens_;   // said so far, the last one perhaps not yet in the cache
  uint32_t in_cache_ = 0;          // leading tokens whose keys and values are in the cache
  uint32_t next_position_ = 0;     // of the next decode step
  std::deque<uint64_t> in_flight_; // timeline values of steps whose token has not been read, in order
  bool sampled_ = false;           // the last prefill left logits to go on from
  double host_seconds_ = 0;
  uint64_t decode_steps_ = 0;
};

} // namespace pumice
