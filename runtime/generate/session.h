#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "step/batch.h"
#include "step/resumable_work.h"

namespace pumice {

// What a conversation goes on with, and how.
struct GenerationRequest {
  std::vector<uint32_t> tokens;     // added to it
  bool anew = false;                // in place of all of it
  uint32_t max_tokens = UINT32_MAX; // after those
  SamplingParams sampling;
};

// One conversation: its tokens, its KV cache and the generation of more. It runs whole steps, some of them
// ahead of the host, or slices of time; both give the same tokens. It can be stopped from another thread,
// gives its device memory back when told to, and outlives its device: what has been said is in the host's
// memory, and all else can be made again from that. What is in the cache already is not computed again. Used
// by one thread at a time, but for cancel().
class Session {
public:
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, SessionOptions options);
  ~Session();

  // Begins a text, which goes on until it ends or another one begins. Computes nothing. What is asked for has
  // to fit the context with one position to spare.
  Status begin(GenerationRequest request);
  bool active() const { return active_; } // a text has begun and its end has not been reached
  // Goes on to the next token, or to the end.
  Status step();
  // Submits a slice that is expected to take so many seconds.
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  // Records it into the application's command buffer.
  Result<SliceResult> record(VkCommandBuffer into, double budget);
  // Forgets slices in command buffers that will not be submitted.
  Status discard();
  // The next of the tokens that came. All of them are a part of the conversation.
  std::optional<BatchToken> take();
  // From any thread: what is being generated ends, and the call that does so returns `cancelled`.
  void cancel() { work_.cancel(); }

  // Begins a text after `tokens`, submits their steps, and with them that of the first token. They are added
  // to the conversation; set_prompt() puts them in place of it. With a callback, waits for the device; the
  // text ends where that returns false.
  Status prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                 const Progress& progress = {});
  Status set_prompt(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                    const Progress& progress = {});
  // The next token. Where a text has ended another one begins.
  Result<uint32_t> next();

  std::span<const uint32_t> tokens() const { return conversation_.tokens; }
  // Forgets everything said so far, and the cache.
  Status reset();

  // Writes the conversation and its cache to a file, and brings it back: into any session of the same model
  // and cache type whose context it fits, for a text to go on from. Both end the text. A file that is damaged
  // or of another model or cache is refused, and the conversation stays as it was.
  Status save(const std::filesystem::path& path);
  Status restore(const std::filesystem::path& path);
  // Keys and values go to the host's memory, and all device memory back: `not_ready` until it is resumed.
  Status suspend();
  // Everything is made anew on a model that is the same, perhaps of another device.
  Status resume(std::shared_ptr<const Model> model);

  const std::shared_ptr<const Model>& model() const { return model_; }
  // Not while it is suspended, or after an error.
  const SessionSize& size() const { return batch_->size(); }
  Runner& runner() { return batch_->runner(); }
  bool full() const { return tokens().size() >= size().context; }
  // Tokens that the last prefill() or set_prompt() did not have to compute.
  uint32_t reused() const { return reused_; }
  // The host's own time for submitting decode steps, and how many those were.
  double host_seconds() const { return batch_->host_seconds(); }
  uint64_t decode_steps() const { return batch_->repeated_steps(); }

private:
  Session(std::shared_ptr<const Model> model, SessionOptions options)
      : model_(std::move(model)), options_(options) {}
  Status make();
  Status ready();
  Status read_prompt(const Progress& progress);
  Status go_on();
  Status stop();
  Status use_slices(bool wanted);
  Status check_cancelled();
  Status collect();
  void received(std::span<const BatchToken> tokens);
  Status run_step();
  Status failed(const Error& error);
  Result<SliceResult> slice(VkCommandBuffer into, double budget, const SubmitSync& sync);

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  ResumableWork work_;
  std::unique_ptr<Batch> batch_;
  bool sliced_ = false; // which way the batch is used
  bool suspended_ = false;
  std::vector<std::byte> saved_; // while it is suspended
  Conversation conversation_;
  size_t limit_ = 0; // tokens of the conversation at which the text ends
  bool active_ = false;
  std::optional<uint32_t> sequence_; // in the batch, that the conversation is
  std::deque<BatchToken> received_;  // and not taken
  uint32_t reused_ = 0;
};

} // namespace pumice
