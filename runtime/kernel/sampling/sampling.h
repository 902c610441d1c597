#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/align.h"
#include "base/result.h"
#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "shaders/sampling/sampling.params.h"

namespace pumice {

struct LogitBias {
  uint32_t token = 0;
  float bias = 0.0f;
};

// How the next token is chosen. Biases are added to logits first, and minus infinity forbids a token,
// whatever its logit; then follows what sampling_options.def describes. Logits that are equal at a limit all
// stay. NaN counts as minus infinity, which is never drawn; if there is nothing else, the token is 0.
// Infinity counts as the largest float. The draw depends on the seed, the new token's position and the logits
// alone, not on the neighbours in a batch.
struct SamplingParams {
#define OPTION(field, type, standard, ...) type field = standard;
#include "kernel/sampling_options.def"
  std::vector<LogitBias> logit_biases; // of at most SAMPLING_BIASES tokens; those of one token are added up
  std::vector<uint32_t> stop_tokens;   // at most SAMPLING_STOPS; see SamplingState::finished_at()
  std::vector<uint32_t> dry_breakers;  // no repetition goes across one; below SAMPLING_BREAKERS
  uint32_t order = 0;                  // of the filters, see filter_order.h
  uint32_t log_probabilities = 0;      // tokens to report, at most SAMPLING_TOP; 0 reports nothing
  uint64_t seed = 0;
};

// Fails if a list is longer than it may be, or an option has a value that there is not.
Status check_sampling(const SamplingParams& params);

struct TokenLogProbability {
  uint32_t token = 0;
  float log_probability = 0.0f;
};

// What the model thought of a token before it was chosen: log-softmax of the logits as they came, without
// biases, penalties and temperature. `top` is the most probable tokens, of equal ones the lowest ids first;
// tokens without any probability are left out.
struct TokenLogProbabilities : TokenLogProbability {
  std::vector<TokenLogProbability> top;
};

// A view of the sampling buffer, Lowering::sampling(), through memory that the host can reach: a slot for
// each sequence with its parameters and a ring of its latest tokens. Each sampled token is appended to its
// sequence's ring, which is both what repetition looks back on and what the host reads. Tokens are counted
// from 0, those that the host put there included, and token n can be read until SAMPLING_RING more have come
// after it. The host writes only between runs that use the slot; it may read the tokens of finished steps
// while later ones run.
class SamplingState {
public:
  // Of the slots; behind them may be tables of forms.
  static constexpr uint64_t bytes(uint32_t sequences) { return align(sequences * sizeof(SamplingSlot), 256); }
  // Of tables: room for those of four texts with large ones, or of many with small ones.
  static uint64_t table_bytes(uint32_t vocabulary, uint32_t sequences);
  // Of masks of rows behind guesses, so many in a step.
  static uint64_t draft_mask_bytes(uint32_t vocabulary, uint32_t masks);

  explicit SamplingState(std::span<std::byte> memory); // of slots alone, aligned to 4
  // The last so many bytes are of draft masks.
  SamplingState(std::span<std::byte> memory, uint32_t sequences, uint64_t draft_mask_bytes = 0);

  uint32_t sequences() const { return static_cast<uint32_t>(slots_.size()); }
  // Values out of range are brought into it; lists that check_sampling refuses are cut.
  void set_params(uint32_t sequence, const SamplingParams& params);
  // The words of the mask of tokens that may be drawn next, a bit each, to be written before the step that
  // draws; set_params() lifts it.
  std::span<uint32_t> set_mask(uint32_t sequence);
  void lift_mask(uint32_t sequence) { slots_[sequence].masked = 0; }
  // The memory of tables (form_words.h). The device follows a form whose table begins at a word of it, from a
  // place on. After set_tokens(); set_params() lifts it.
  std::span<uint32_t> tables() const { return tables_; }
  void set_form(uint32_t sequence, uint32_t table, uint32_t place);
  // After set_params(). Forgets the sequence's tokens; these, such as the prompt's, come in their place. Only
  // the last SAMPLING_RING are stored but all are counted.
  void set_tokens(uint32_t sequence, std::span<const uint32_t> tokens);
  // A token that is not drawn comes behind the others.
  void append(uint32_t sequence, uint32_t token);
  // Tokens that the next step guesses at: they stand behind the others, and are not counted.
  void set_drafts(uint32_t sequence, std::span<const uint32_t> drafts);
  // Where the text has a form then, what may be drawn behind each guess. Of a form that the device follows:
  // its places there. Otherwise masks, one behind the other from a word of the memory of all sequences' on.
  void set_draft_places(uint32_t sequence, std::span<const uint32_t> places);
  std::span<uint32_t> draft_masks() const { return draft_masks_; }
  void set_draft_masks(uint32_t sequence, size_t begin);
  // After such a step: so many tokens hold, and what was sampled behind them is forgotten.
  void set_count(uint32_t sequence, uint32_t count);
  uint32_t count(uint32_t sequence) const { return slots_[sequence].count; } // tokens there have ever been
  uint32_t token(uint32_t sequence, uint32_t n) const { return slots_[sequence].tokens[n % SAMPLING_RING]; }
  // Which token was the first since set_tokens() to be sampled and a stop token. Steps after it go on, and
  // what they sample is to be thrown away.
  std::optional<uint32_t> finished_at(uint32_t sequence) const;
  // Of token n, if it was sampled while log-probabilities were asked for and less than SAMPLING_REPORTS
  // others have been since.
  TokenLogProbabilities log_probabilities(uint32_t sequence, uint32_t n) const;

private:
  std::span<SamplingSlot> slots_;
  std::span<uint32_t> tables_, draft_masks_;
};

// One token for each output row of the step block. A sequence has one output row, or several where a step
// guesses at tokens (see SamplingState::set_drafts()): each is sampled as if the guesses before it were the
// text. Afterwards the step block is the next step's, ready to be submitted again as it is: for each output
// row j, made from the row {token, position, sequence, first} that it named,
//   row j = {the new token, position + 1, sequence, first}, output row j = j,
//   header = {output count, output count, results produced + 1, unchanged}.
// If the output count is 0, nothing is touched.
struct SampleArgs {
  ActivationRef logits; // rows_kind outputs; biases and penalties are added in place
  BufferRef state;      // of SamplingState, its slots
  BufferRef tables;     // and its tables, with its draft masks behind them; no bytes: none
  BufferRef step;
  uint32_t step_capacity = 0; // rows that fit the step block
  BufferRef scratch;          // sample_scratch_bytes()
};

uint64_t sample_scratch_bytes(const DeviceProfile& profile, const ActivationRef& logits);
// In this order, a barrier between them.
std::array<Dispatch, 2> sample(const DeviceProfile& profile, const SampleArgs& args);
// Whether it is the first of them: nothing before it reads what the host writes for the sampling.
bool begins_sampling(const Dispatch& dispatch);

// inputs: the logits. The result goes into the step block and the sampling buffer; the output tensor only
// stands for it in the graph and holds nothing.
struct Sample : Operation {
  std::string_view name() const override { return "sample"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId sample(Graph& graph, std::string name, TensorId logits);

} // namespace pumice
