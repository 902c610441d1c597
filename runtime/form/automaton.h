#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "form/nfa.h"
#include "form/token_tree.h"

namespace pumice::form {

// Most states of the deterministic automata of a rule.
inline constexpr size_t most_states = 20'000;
// Most places of its automaton that a state stands for.
inline constexpr size_t most_positions = 20'000;
// Most bytes that its states take, and most edges that are followed to find them: less than a second.
inline constexpr size_t most_state_bytes = 128 << 20;
inline constexpr size_t most_edges_followed = 30'000'000;
// Most masks of a rule that are kept.
inline constexpr size_t most_masks = 1'000;

class Automaton;

// Of a state: the tokens that can follow, as far as the state's own rule says.
struct LocalMask {
  // The tokens that stay within the rule or end with it: a bit for each, or if they are few, a list.
  std::vector<uint32_t> bits;
  std::vector<uint32_t> few;
  // The rest of the tokens that go on after the end of the rule: what comes then decides on them.
  TokenTree leaving;
};

// A state of the deterministic automaton of a rule. It is made when it is first reached.
struct State {
  struct Call {
    const State* begin = nullptr; // of the rule that is called
    const State* back = nullptr;  // where this rule goes on
  };

  Automaton* owner = nullptr;
  std::vector<uint64_t> positions; // count << 32 | state of the Nfa; sorted
  bool ends = false;               // a text may end here
  bool has_bytes = false;          // some byte may follow
  std::vector<Call> calls = {};
  bool calls_known = false;
  std::array<const State*, 256> next = {}; // null: not known yet
  std::shared_ptr<const LocalMask> mask = {};
  int32_t plain_reach = -1; // for Form::plain_reach()

  // Nothing but the end may follow.
  bool only_ends() const { return ends && !has_bytes && calls_known && calls.empty(); }
};

// A rule's automaton over bytes, made deterministic step by step. Rules that it calls are like letters of it.
class Automaton {
public:
  explicit Automaton(Nfa nfa);
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  // The automata of the rules that edges name. Only what has no calls needs none.
  void set_callees(std::vector<Automaton*> callees) { callees_ = std::move(callees); }
  bool has_callees() const { return !callees_.empty(); }

  const State* start();
  // Its calls are known from then on.
  const State* reach(const State* at);
  // Where a byte leads; null: it may not follow.
  const State* next(const State* at, uint8_t byte) {
    const State* to = at->next[byte] ? at->next[byte] : find_next(at, byte);
    return to == &dead_ ? nullptr : to;
  }
  // Whether some text fits.
  bool possible() { return !is_dead(start()->positions) && can_end(start()); }
  // It grew over a limit: what it says is not right any more.
  bool too_large() const { return too_large_; }
  size_t states() const { return states_.size(); }
  size_t state_bytes() const { return states_.size() * sizeof(State) + position_bytes_; }
  size_t edges_followed() const { return edges_followed_; }

  // States whose counts do not differ for texts of at most `reach` bytes have the same mask.
  const LocalMask* mask(const State* at, size_t reach);
  const LocalMask* keep_mask(const State* at, size_t reach, LocalMask mask);

private:
  using Positions = std::vector<uint64_t>;
  struct Hash {
    size_t operator()(const Positions& positions) const;
  };

  State* intern(Positions positions);
  const State* find_next(const State* at, uint8_t byte);
  void find_calls(State& state);
  Positions closed(Positions positions);
  // Where a byte leads, and the bytes around it that lead to the same. Empty: nowhere.
  struct Step {
    Positions to;
    uint8_t first = 0, last = 0xFF;
  };
  Step step(const State& from, uint8_t byte);
  bool is_dead(const Positions& positions) const;
  bool can_end(const State* from);
  bool ends(const Positions& positions) const;
  Positions mask_key(const State* at, size_t reach) const;
  const Nfa::Loop* loop_of(uint32_t state) const;

  Nfa nfa_;
  std::vector<Automaton*> callees_;
  std::deque<State> states_;
  std::unordered_map<Positions, State*, Hash> known_;
  std::unordered_map<Positions, std::shared_ptr<const LocalMask>, Hash> masks_;
  std::unordered_map<const State*, bool> productive_;
  State dead_;
  State* start_ = nullptr;
  size_t edges_followed_ = 0, position_bytes_ = 0;
  bool too_large_ = false;
};

} // namespace pumice::form
