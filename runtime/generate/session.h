#pragma once

#include <optional>

#include "base/progress.h"
#include "step/batch.h"

namespace pumice {

// One conversation: its tokens, its KV cache and the decoding loop. A batch of a single sequence, which is
// begun anew whenever the host adds to the conversation: what is in the cache already is not computed again.
// Used by one thread at a time.
class Session {
public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, SessionOptions options);

  // Adds tokens to the conversation, in chunks of size().chunk, and prepares the first token after them. They
  // have to fit the context with one position to spare. With a callback, waits for the device.
  Status prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                 const Progress& progress = {});
  // The same with tokens in place of the whole conversation: what both begin with is not computed again.
  Status set_prompt(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                    const Progress& progress = {});
  // The next token of the conversation; it becomes a part of it.
  Result<uint32_t> next();
  // Of the token that next() gave last, where its sampling asked for them.
  const TokenLogProbabilities& log_probabilities() const { return last_.log_probabilities; }
  // Forgets everything said so far, and the cache.
  Status reset();

  // Writes the conversation and its cache to a file, and brings it back: into any session of the same model
  // and cache type whose context it fits, for next() or prefill() to go on from. A file that is damaged or of
  // another model or cache is refused, and the session stays as it was.
  Status save(const std::filesystem::path& path);
  Status load(const std::filesystem::path& path);

  std::span<const uint32_t> tokens() const { return conversation_.tokens; }
  // Tokens that the last prefill or set_prompt did not have to compute.
  uint32_t reused() const { return reused_; }
  const SessionSize& size() const { return batch_->size(); }
  bool full() const { return tokens().size() >= size().context; }
  Runner& runner() { return batch_->runner(); }

  // The host's own time for submitting decode steps, and how many those were.
  double host_seconds() const { return batch_->host_seconds(); }
  uint64_t decode_steps() const { return batch_->repeated_steps(); }

private:
  explicit Session(std::unique_ptr<Batch> batch) : batch_(std::move(batch)) {}
  Status begin(Conversation conversation);
  Status read_prompt(const Progress& progress);
  Status pause();

  std::unique_ptr<Batch> batch_;
  Conversation conversation_;
  std::optional<uint32_t> sequence_; // in the batch, while it goes on
  BatchToken last_;
  uint32_t reused_ = 0;
};

} // namespace pumice
