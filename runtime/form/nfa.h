#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "form/grammar.h"

namespace pumice::form {

// Most states of the automaton of a rule.
inline constexpr size_t most_nfa_states = 400'000;

// A rule as an automaton over bytes. Repetitions count instead of having a copy of their part for each time,
// where they lie in no other one that counts: a position is a state and that count.
struct Nfa {
  enum class Kind : uint8_t {
    bytes, // of the range
    call,  // a text of `rule`
    skip,  // nothing
    more,  // nothing, where the loop of this state may go round once more
    again, // nothing, and counts one more round of the loop of `to`
    leave, // nothing, where the loop of this state has gone round often enough; forgets the count
  };
  struct Edge {
    Kind kind = Kind::skip;
    uint8_t first = 0, last = 0;
    uint32_t to = 0, rule = 0;
  };
  struct Loop {
    uint32_t least = 0, most = unlimited;
  };
  static constexpr uint32_t no_loop = UINT32_MAX;
  // Of Grammar::Rule::terms. Its states are those from `first_state` to the next term's.
  struct Term {
    uint32_t first_state = 0, start = 0, end = 0;
    bool negated = false, begins = false;
  };

  std::vector<uint32_t> first_edge; // of each state, and one more
  std::vector<Edge> edges;
  std::vector<uint32_t> loop; // that each state lies in
  std::vector<Loop> loops;
  std::vector<Term> terms;
};

// What is known of a grammar's rules.
struct RuleFacts {
  std::vector<bool> possible;       // there is a text that fits
  std::vector<bool> nullable;       // the empty text fits
  std::vector<bool> inlined;        // where it is called, instead of a call
  std::vector<bool> possible_parts; // of all parts
};
// Refuses left recursion, and a grammar that no text fits. `contradictory`: the rules whose terms have no
// text in common.
Result<RuleFacts> rule_facts(const Grammar& grammar, const std::vector<bool>& contradictory);
bool is_nullable(const Grammar& grammar, const RuleFacts& facts, Part part);

Result<Nfa> make_nfa(const Grammar& grammar, const RuleFacts& facts, uint32_t rule);

} // namespace pumice::form
