#pragma once

#include <memory>
#include <span>
#include <vector>

#include "step/cache/snapshot.h"
#include "step/runner.h"

namespace pumice {

// The log-probability of each token of each continuation, after the prefix and the tokens before it.
using ContinuationScores = std::vector<std::vector<float>>;

// Tells how probable continuations of a prefix are. The prefix is computed once, its keys and values are
// copied on the device, and as many continuations as there are sequences run in the same steps. What is
// computed stays for the next call, if that has the same prefix or a beginning of it. Used by one thread at a
// time.
class ContinuationScorer {
public:
  // `size.sequences`: most continuations in a step.
  static Result<std::unique_ptr<ContinuationScorer>> create(std::shared_ptr<const Model> model,
                                                            SessionSize size, AdapterChoice adapter = {});

  // The prefix and each continuation have at least one token. Together they fit the context: the last token
  // takes no place there.
  Result<ContinuationScores> score(std::span<const uint32_t> prefix,
                                   std::span<const std::vector<uint32_t>> continuations,
                                   const Progress& progress = {});

  // Takes the keys and values of `tokens`, a beginning of prefixes to come, which a sequence of another
  // runner of the same model has, instead of computing them. `written_end`: as copy_caches() has it.
  Status adopt(const CachedSequence& from, std::span<const uint32_t> tokens, uint32_t written_end);

  const SessionSize& size() const { return runner_->size(); }
  const AdapterChoice& adapter() const { return adapter_; } // with which it computes
  Runner& runner() { return *runner_; }

private:
  // What the caches hold of a sequence.
  struct Slot {
    std::vector<uint32_t> cached; // from position 0
    uint32_t written_end = 0;
    StateHistory states;
  };
  // Tokens that a sequence is to read, the scored ones among them.
  struct Text {
    uint32_t slot = 0;
    std::vector<uint32_t> tokens;
    uint32_t first_scored = 0; // the first token whose log-probability is wanted; behind the last: none
    std::vector<float>* scores = nullptr;
  };

  explicit ContinuationScorer(std::unique_ptr<Runner> runner);
  Status check(std::span<const uint32_t> prefix, std::span<const std::vector<uint32_t>> continuations) const;
  uint32_t computed(const Slot& slot, std::span<const uint32_t> tokens) const;
  Status copy_prefix(std::span<const uint32_t> prefix, uint32_t slot);
  Status run(std::span<const Text> texts, const Progress& progress);

  std::unique_ptr<Runner> runner_;
  std::vector<Slot> slots_;
  AdapterChoice adapter_;
  uint32_t first_slot_ = 0; // of continuations: those before it only hold the prefix
};

} // namespace pumice
