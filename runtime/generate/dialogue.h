#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "recording/time_slicer.h"
#include "step/batch.h"

namespace pumice {

// What a conversation goes on with, and how.
struct DialogueRequest {
  std::vector<uint32_t> tokens;     // added to it
  bool anew = false;                // in place of all of it
  uint32_t max_tokens = UINT32_MAX; // after those
  SamplingParams sampling;
};

// A conversation as a guest in somebody else's program: it is generated in slices of time or all at once, can
// be stopped from another thread, gives its device memory back when told to, and outlives its device. What
// has been said is in the host's memory; all else can be made again from that. Used by one thread at a time,
// but for cancel().
class Dialogue {
public:
  // With `warm_up`, runs each kind of step while it is made, so that the first slices' costs are known.
  static Result<std::unique_ptr<Dialogue>> create(std::shared_ptr<const Model> model, SessionOptions options,
                                                  bool warm_up = false);
  ~Dialogue();

  // Begins a text; what was being generated ends where it is. Computes nothing.
  Status begin(DialogueRequest request);
  bool active() const { return active_; } // a text has begun and its end has not been taken

  // Goes on to the next token, or to the end.
  Status step();
  // Submits a slice that is expected to take so many seconds.
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  // Records it into the application's command buffer.
  Result<SliceResult> record(VkCommandBuffer into, double budget);
  // Forgets slices in command buffers that will not be submitted.
  Status discard();
  // The next of the tokens that came, which is a part of the conversation from here on.
  std::optional<BatchToken> take();

  // From any thread: what is being generated ends, and the call that does so returns `cancelled`.
  void cancel() { cancelled_ = true; }

  std::span<const uint32_t> tokens() const { return conversation_.tokens; }
  const std::shared_ptr<const Model>& model() const { return model_; }

  Status save(const std::filesystem::path& path);
  Status restore(const std::filesystem::path& path);
  // Keys and values go to the host's memory, and all device memory back.
  Status suspend();
  // Everything is made anew on a model that is the same, perhaps of another device.
  Status resume(std::shared_ptr<const Model> model);

private:
  Dialogue(std::shared_ptr<const Model> model, SessionOptions options, bool warm_up);
  Status make();
  Status warm_up();
  Status ready();
  Status go_on();
  Status stop();
  Status use_slices(bool wanted);
  Status check_cancelled();
  Status collect();
  void received(std::span<const BatchToken> tokens);
  Result<SliceResult> slice(VkCommandBuffer into, double budget, const SubmitSync& sync);
  template <class T>
  T failed(T result);

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  bool warm_up_ = false;
  std::unique_ptr<TimeSlicer> slicer_;
  std::unique_ptr<Batch> batch_;
  bool sliced_ = false; // which way the batch is used
  bool broken_ = false; // an error came from the device: the batch is made anew before anything else
  bool suspended_ = false;
  std::vector<std::byte> saved_; // while it is suspended
  Conversation conversation_;
  size_t limit_ = 0; // tokens of the conversation at which the text ends
  bool active_ = false;
  std::optional<uint32_t> sequence_; // in the batch
  std::deque<BatchToken> received_;  // and not taken
  std::atomic<bool> cancelled_ = false;
};

} // namespace pumice
