#include "form/automaton.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace pumice::form {

namespace {

constexpr uint64_t position(uint32_t state, uint32_t count) {
  return uint64_t{count} << 32 | state;
}
constexpr uint32_t state_of(uint64_t position) {
  return static_cast<uint32_t>(position);
}
constexpr uint32_t count_of(uint64_t position) {
  return static_cast<uint32_t>(position >> 32);
}

// Most states that are looked at for one from which a text can end.
constexpr size_t most_searched = 4'000;

} // namespace

size_t Automaton::Hash::operator()(const Positions& positions) const {
  uint64_t hash = positions.size();
  for (const uint64_t each : positions) hash = (hash ^ each) * 0x9E3779B97F4A7C15U, hash ^= hash >> 29;
  return static_cast<size_t>(hash);
}

Automaton::Automaton(Nfa nfa) : nfa_(std::move(nfa)) {}

const Nfa::Loop* Automaton::loop_of(uint32_t state) const {
  const uint32_t loop = nfa_.loop[state];
  return loop == Nfa::no_loop ? nullptr : &nfa_.loops[loop];
}

const State* Automaton::start() {
  if (!start_) {
    Positions positions;
    for (const Nfa::Term& term : nfa_.terms) positions.push_back(term.start);
    start_ = intern(closed(std::move(positions)));
  }
  find_calls(*start_);
  return start_;
}

const State* Automaton::reach(const State* at) {
  if (!at->calls_known) find_calls(const_cast<State&>(*at)); // one of states_
  return at;
}

// Adds what is reached without a byte. Of two counts that both allow to leave a loop, the lower one allows
// all that the other one does.
Automaton::Positions Automaton::closed(Positions positions) {
  std::unordered_map<uint32_t, uint32_t> lowest; // counts that allow to leave, of each state
  constexpr size_t searched = 16;                // positions; more are in `seen` too
  std::unordered_set<uint64_t> seen;
  Positions result;
  const auto is_known = [&](uint64_t at) {
    if (result.size() < searched) return std::ranges::find(result, at) != result.end();
    if (seen.empty()) seen.insert(result.begin(), result.end());
    return !seen.insert(at).second;
  };
  const auto add = [&](uint64_t at) {
    const Nfa::Loop* loop = loop_of(state_of(at));
    if (loop && count_of(at) >= loop->least) {
      const auto [known, added] = lowest.try_emplace(state_of(at), count_of(at));
      if (!added && known->second <= count_of(at)) return;
      known->second = count_of(at);
    }
    if (!is_known(at)) result.push_back(at);
  };
  for (const uint64_t each : positions) add(each);
  for (size_t i = 0; i < result.size(); ++i) {
    if (result.size() > most_positions) {
      too_large_ = true;
      return {};
    }
    const uint32_t from = state_of(result[i]), count = count_of(result[i]);
    edges_followed_ += 1 + nfa_.first_edge[from + 1] - nfa_.first_edge[from];
    for (uint32_t e = nfa_.first_edge[from]; e < nfa_.first_edge[from + 1]; ++e) {
      const Nfa::Edge& edge = nfa_.edges[e];
      const Nfa::Loop* loop = loop_of(edge.kind == Nfa::Kind::again ? edge.to : from);
      switch (edge.kind) {
      case Nfa::Kind::bytes:
      case Nfa::Kind::call:
        break;
      case Nfa::Kind::skip:
        add(position(edge.to, count));
        break;
      case Nfa::Kind::more:
        if (count < loop->most) add(position(edge.to, count));
        break;
      case Nfa::Kind::again:
        add(position(edge.to, loop->most == unlimited ? std::min(count + 1, loop->least) : count + 1));
        break;
      case Nfa::Kind::leave:
        if (count >= loop->least) add(position(edge.to, 0));
        break;
      }
    }
  }
  // Only what a byte, a call or the end follows makes a difference.
  std::erase_if(result, [&](uint64_t at) {
    const uint32_t state = state_of(at);
    const Nfa::Loop* loop = loop_of(state);
    if (loop && count_of(at) >= loop->least && lowest[state] < count_of(at)) return true;
    const auto begin = nfa_.edges.begin() + nfa_.first_edge[state],
               end = nfa_.edges.begin() + nfa_.first_edge[state + 1];
    const bool stays =
        std::any_of(begin, end, [](const Nfa::Edge& edge) { return edge.kind <= Nfa::Kind::call; });
    return !stays &&
           std::ranges::none_of(nfa_.terms, [&](const Nfa::Term& term) { return term.end == state; });
  });
  std::ranges::sort(result);
  return result;
}

bool Automaton::ends(const Positions& positions) const {
  return std::ranges::all_of(nfa_.terms, [&](const Nfa::Term& term) {
    return std::ranges::binary_search(positions, uint64_t{term.end}) != term.negated;
  });
}

bool Automaton::is_dead(const Positions& positions) const {
  if (nfa_.terms.size() == 1) return positions.empty();
  for (size_t i = 0; i < nfa_.terms.size(); ++i) {
    const uint32_t begin = nfa_.terms[i].first_state;
    const size_t end = i + 1 < nfa_.terms.size() ? nfa_.terms[i + 1].first_state : nfa_.loop.size();
    const auto inside = [&](uint64_t at) { return state_of(at) >= begin && state_of(at) < end; };
    const Nfa::Term& term = nfa_.terms[i];
    if (!term.negated && std::ranges::none_of(positions, inside)) return true;
    if (term.begins && std::ranges::binary_search(positions, uint64_t{term.end})) return true;
  }
  return false;
}

State* Automaton::intern(Positions positions) {
  const auto [known, added] = known_.try_emplace(std::move(positions), nullptr);
  if (!added) return known->second;
  State& state = states_.emplace_back();
  known->second = &state;
  state.owner = this;
  state.positions = known->first;
  state.ends = ends(state.positions);
  state.calls_known = true;
  for (const uint64_t at : state.positions) {
    for (uint32_t e = nfa_.first_edge[state_of(at)]; e < nfa_.first_edge[state_of(at) + 1]; ++e) {
      state.has_bytes = state.has_bytes || nfa_.edges[e].kind == Nfa::Kind::bytes;
      if (nfa_.edges[e].kind == Nfa::Kind::call) state.calls_known = false;
    }
  }
  position_bytes_ += 2 * state.positions.size() * sizeof(uint64_t);
  too_large_ = too_large_ || states_.size() > most_states || state_bytes() > most_state_bytes ||
               edges_followed_ > most_edges_followed;
  return &state;
}

// A place to go on to has its own calls found when it is reached: here it would be endless.
void Automaton::find_calls(State& state) {
  if (state.calls_known) return;
  state.calls_known = true;
  std::map<uint32_t, Positions> targets;
  for (const uint64_t at : state.positions) {
    for (uint32_t e = nfa_.first_edge[state_of(at)]; e < nfa_.first_edge[state_of(at) + 1]; ++e) {
      const Nfa::Edge& edge = nfa_.edges[e];
      if (edge.kind == Nfa::Kind::call) targets[edge.rule].push_back(position(edge.to, count_of(at)));
    }
  }
  for (auto& [rule, positions] : targets) {
    const State* back = intern(closed(std::move(positions)));
    state.calls.push_back({callees_[rule]->start(), back});
  }
}

Automaton::Step Automaton::step(const State& from, uint8_t byte) {
  Step result;
  for (const uint64_t each : from.positions) {
    for (uint32_t e = nfa_.first_edge[state_of(each)]; e < nfa_.first_edge[state_of(each) + 1]; ++e) {
      const Nfa::Edge& edge = nfa_.edges[e];
      if (edge.kind != Nfa::Kind::bytes) continue;
      if (edge.last < byte) {
        result.first = std::max(result.first, static_cast<uint8_t>(edge.last + 1));
      } else if (edge.first > byte) {
        result.last = std::min(result.last, static_cast<uint8_t>(edge.first - 1));
      } else {
        result.first = std::max(result.first, edge.first);
        result.last = std::min(result.last, edge.last);
        result.to.push_back(position(edge.to, count_of(each)));
      }
    }
    edges_followed_ += nfa_.first_edge[state_of(each) + 1] - nfa_.first_edge[state_of(each)];
  }
  if (!result.to.empty()) result.to = closed(std::move(result.to));
  if (!result.to.empty() && is_dead(result.to)) result.to.clear();
  return result;
}

const State* Automaton::find_next(const State* at, uint8_t byte) {
  if (too_large_) return &dead_;         // whoever asks sees it later
  State& from = const_cast<State&>(*at); // one of states_
  Step there = step(from, byte);
  const State* to = &dead_;
  if (!there.to.empty()) {
    State* found = intern(std::move(there.to));
    find_calls(*found);
    if (nfa_.terms.size() == 1 || can_end(found)) to = found;
  }
  std::fill(from.next.begin() + there.first, from.next.begin() + there.last + 1, to);
  return to;
}

// Whether a text that has come so far can end: the terms may contradict each other later. If that is not
// found soon, the form is too large.
bool Automaton::can_end(const State* from) {
  if (const auto known = productive_.find(from); known != productive_.end()) return known->second;
  std::vector<const State*> left{from};
  std::unordered_map<const State*, const State*> before{{from, nullptr}};
  while (!left.empty() && before.size() < most_searched && !too_large_) {
    const State* at = left.back();
    left.pop_back();
    const auto known = productive_.find(at);
    if (at->ends || (at != from && known != productive_.end() && known->second)) {
      for (; at; at = before[at]) productive_[at] = true;
      return true;
    }
    for (int byte = 0xFF; byte >= 0;) {
      Step there = step(*at, static_cast<uint8_t>(byte));
      byte = there.first - 1;
      if (there.to.empty()) continue;
      const State* to = intern(std::move(there.to));
      if (before.try_emplace(to, at).second) left.push_back(to);
    }
  }
  too_large_ = too_large_ || !left.empty();
  return productive_[from] = false;
}

// Counts by what is left of them, as far as `reach` bytes can use it up.
Automaton::Positions Automaton::mask_key(const State* at, size_t reach) const {
  Positions key;
  for (const uint64_t each : at->positions) {
    const Nfa::Loop* loop = loop_of(state_of(each));
    key.push_back(state_of(each));
    if (!loop) continue;
    const uint32_t count = count_of(each), limit = static_cast<uint32_t>(reach) + 1;
    const uint32_t least = loop->least > count ? std::min(loop->least - count, limit) : 0;
    const uint32_t most = loop->most == unlimited ? limit : std::min(loop->most - count, limit);
    key.push_back(uint64_t{least} << 32 | most);
  }
  return key;
}

const LocalMask* Automaton::mask(const State* at, size_t reach) {
  if (at->mask) return at->mask.get();
  if (nfa_.loops.empty()) return nullptr;
  const auto known = masks_.find(mask_key(at, reach));
  if (known == masks_.end()) return nullptr;
  const_cast<State*>(at)->mask = known->second;
  return known->second.get();
}

const LocalMask* Automaton::keep_mask(const State* at, size_t reach, LocalMask mask) {
  if (masks_.size() >= most_masks) {
    masks_.clear();
    for (State& state : states_) state.mask.reset();
  }
  auto kept = std::make_shared<const LocalMask>(std::move(mask));
  masks_[mask_key(at, reach)] = kept;
  const_cast<State*>(at)->mask = kept;
  return kept.get();
}

} // namespace pumice::form
