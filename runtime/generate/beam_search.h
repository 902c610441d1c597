#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "generate/generation_config.h"
#include "generate/terms.h"

namespace pumice {

// A text that a search has found.
struct Hypothesis {
  std::vector<uint32_t> tokens; // after the prompt, the end token included
  float score = 0;              // see score_of()
  bool finished = false;        // by an end token or its greatest length
};

// The score of a text: this sum of log-probabilities, by the text's length as the penalty says.
float score_of(float log_probability, size_t length, const GenerationConfig& config);

// One possible next token of a beam.
struct Continuation {
  uint32_t beam = 0;
  uint32_t token = 0;
  float score = 0; // the beam's own, and the token's log-probability
};

// Beam search for one input, as in transformers: several texts that grow together, and the best finished
// ones. It knows no model: in each step it is given the best continuations of its beams.
//
// With terms, a text ends only when it contains all of them. The beams are shared out by how many tokens of
// the terms their texts contain, so that texts with few of them and texts with many grow side by side, and
// the text with most of them always stays (Post and Vilar 2018, "Fast Lexically Constrained Decoding with
// Dynamic Beam Allocation for Neural Machine Translation").
class BeamSearch {
public:
  // `config` gives beams, ends, max_tokens (not 0), the length penalty and when to stop.
  explicit BeamSearch(const GenerationConfig& config, std::vector<Term> terms = {});

  struct Beam {
    std::vector<uint32_t> tokens; // after the prompt
    float score = 0;
  };

  // The unfinished texts: at first one, later as many as config.beams, or fewer if there were not enough
  // continuations.
  std::span<const Beam> beams() const { return running_; }
  // How many continuations advance() needs: the best ones of all beams together.
  size_t wanted() const;
  // Chooses the new beams from these continuations, which are sorted, best first. With terms, those that
  // term_state() of a beam names must be among them, and the best one of each beam; none may end a text that
  // lacks a term. Returns for each new beam the old beam that it continues.
  std::vector<uint32_t> advance(std::span<const Continuation> best);
  bool done() const { return done_; }
  std::span<const Term> terms() const { return terms_; }

  // The best `count` texts, best first. Unfinished ones are included only if none has finished. A text lacks
  // a term only if it reached its greatest length before any text had all of them.
  std::vector<Hypothesis> results(size_t count) const;

private:
  // What becomes of a step's continuations.
  struct Choice {
    std::vector<Continuation> beams, ended;
  };
  Choice choose(std::span<const Continuation> best, bool last) const;
  // A continuation, and how much of the terms its text contains.
  struct Candidate {
    Continuation next;
    size_t tokens = 0; // of the terms
    size_t group = 0;  // of texts that contain about as many
  };
  struct Candidates {
    std::vector<Candidate> all; // best first
    size_t groups = 0;          // in the last one are those that lack nothing
    size_t most = 0;            // tokens that one of them contains
    size_t wanted = 0;          // tokens of all terms
  };
  Candidates with_terms(std::span<const Continuation> best) const;
  Choice choose_with_terms(std::span<const Continuation> best, bool last) const;
  Choice choose_last(const Candidates& candidates) const;
  // Gives each group its share of the beams, from the last on, and keeps what of a share's texts ends.
  void share_out(const Candidates& candidates, std::vector<bool>& taken, Choice& choice) const;
  bool takes_ends() const;
  float penalized(float score, size_t length) const { return score_of(score, length, config_); }
  bool is_end(uint32_t token) const;
  void finish(const Continuation& last, size_t length);
  bool can_improve(size_t length) const;

  const GenerationConfig& config_;
  std::vector<Term> terms_;
  std::vector<Beam> running_;
  std::vector<Hypothesis> finished_; // best first
  bool done_ = false;
  bool closed_ = false; // texts that finish from now on do not count
};

} // namespace pumice
