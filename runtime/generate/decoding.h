#pragma once

#include <functional>
#include <memory>
#include <span>

#include "generate/beam_search.h"
#include "generate/logit_rules.h"
#include "step/batch.h"

namespace pumice {

// How one call decodes.
struct GenerationOptions {
  GenerationConfig config; // its beams are those of the session or 1
  // Used without beams; the suppressed tokens and ends of `config` are added. With log-probabilities, texts
  // that the device samples have scores, too.
  SamplingParams sampling;
  size_t hypotheses = 1; // texts of each input, best first, at most its beams
  LogitRule rule;        // applied in addition to the rules of `config`
  // What the texts of each input must contain: a list for each input, or no lists. Needs at least two beams.
  // The host searches then, from the logits.
  std::vector<std::vector<Term>> terms = {};
  // Called for each token, without beams only. `input` is an index into the inputs of the call.
  std::function<void(size_t input, uint32_t token)> on_token;
  // Called when the texts of an input are complete; other inputs may still be under way.
  std::function<void(size_t input, const std::vector<Hypothesis>& texts)> on_texts;
  Progress progress; // counts finished inputs
  // What the encoder made of the inputs stays until the next begin(), so that again() can use it. They must
  // fit one step.
  bool keep_inputs = false;
  // Checked between submissions: once it is set, generating returns `cancelled`.
  const std::atomic<bool>* interrupt = nullptr;

  bool interrupted() const { return interrupt && *interrupt; }
};

// Inputs that an encoder's step has read, and where their texts go. What it points to must outlive the
// decoding.
struct DecodingTask {
  const GenerationOptions& options; // max_tokens is not 0
  std::span<const InputRange> ranges;
  size_t first_input = 0; // of the call
  std::span<std::vector<Hypothesis>> texts;
};

// Generates the texts of some inputs that run together, step by step. Steps run whole or in slices, but not
// both in one decoding.
class Decoding {
public:
  virtual ~Decoding() = default;

  // Prepares the first step.
  virtual Status begin() = 0;
  virtual bool done() const = 0;
  // Submits a step, and takes in the oldest one whose tokens are there, for which it waits.
  virtual Status step() = 0;
  // In slices: puts the next dispatches into the current slice, as many as fit and can run without the host.
  virtual Status fill(Slice& slice) = 0;
  // Takes in what steps have computed that are known to have finished, and decides how to go on.
  virtual Status collect() = 0;
  // Ends it, also early, so that another one can begin.
  virtual Status end() = 0;
};

// The most probable or sampled tokens, which the device chooses.
std::unique_ptr<Decoding> make_greedy_decoding(Batch& batch, const DecodingTask& task);
// The best tokens after rules, or beams. `runner` makes "continuations" readable, which the device has found,
// or, for rules that only the host knows, "logits". Each input has `beams` of its sequences.
std::unique_ptr<Decoding> make_search_decoding(Runner& runner, uint32_t beams, const DecodingTask& task);
// Whether the device can find the continuations of such a search, in texts of up to `context` tokens.
bool device_can_search(const GenerationOptions& options, uint32_t context);

} // namespace pumice
