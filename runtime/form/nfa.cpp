#include "form/nfa.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace pumice::form {

namespace {

using Kind = Grammar::Kind;

class NfaBuilder {
public:
  NfaBuilder(const Grammar& grammar, const RuleFacts& facts) : grammar_(grammar), facts_(facts) {}

  Result<Nfa> build(uint32_t rule) {
    for (const Grammar::Term& term : grammar_.rules[rule].terms) {
      const uint32_t start = state();
      nfa_.terms.push_back({start, start, 0, term.negated, term.begins});
      nfa_.terms.back().end = add(term.part, start);
    }
    if (full()) {
      return Error{Code::unsupported, fmt::format("{} is too large: its repetitions need more than {} states",
                                                  grammar_.rules[rule].name, most_nfa_states)};
    }
    // Sorted by state.
    nfa_.first_edge.assign(states_ + 1, 0);
    for (const auto& [from, edge] : edges_) ++nfa_.first_edge[from + 1];
    for (uint32_t i = 0; i < states_; ++i) nfa_.first_edge[i + 1] += nfa_.first_edge[i];
    std::vector<uint32_t> next = nfa_.first_edge;
    nfa_.edges.resize(edges_.size());
    for (const auto& [from, edge] : edges_) nfa_.edges[next[from]++] = edge;
    return std::move(nfa_);
  }

private:
  // Without facts, no part is a rule, and what cannot be is left out already.
  bool is_possible(Part part) const { return facts_.possible_parts.empty() || facts_.possible_parts[part]; }
  bool full() const { return states_ > most_nfa_states; }

  uint32_t state() {
    nfa_.loop.push_back(loop_);
    return states_++;
  }

  void edge(uint32_t from, Nfa::Edge edge) { edges_.emplace_back(from, edge); }
  void skip(uint32_t from, uint32_t to) { edge(from, {.to = to}); }

  // Adds a part that begins in a state. Returns where it ends: a state without edges.
  uint32_t add(Part part, uint32_t from) {
    const Grammar::Node& node = grammar_.parts[part];
    if (full()) return from;
    switch (node.kind) {
    case Kind::never:
      return state();
    case Kind::text:
      return add_text(node.text, from);
    case Kind::characters:
      return add_characters(node.characters, from);
    case Kind::sequence: {
      if (node.parts.empty()) return add_text("", from);
      for (const Part each : node.parts) from = add(each, from);
      return from;
    }
    case Kind::choice: {
      const uint32_t to = state();
      std::vector<std::string_view> texts;
      for (const Part each : node.parts) {
        if (!is_possible(each)) continue;
        if (grammar_.parts[each].kind == Kind::text) {
          texts.push_back(grammar_.parts[each].text);
        } else {
          skip(add(each, from), to);
        }
      }
      add_texts(std::move(texts), from, to);
      return to;
    }
    case Kind::repeat:
      return add_repeat(node, from);
    case Kind::list:
      return add_list(node, from);
    case Kind::rule:
      return add_call(node.rule, from);
    }
    return from;
  }

  uint32_t add_call(uint32_t rule, uint32_t from) {
    if (!facts_.possible[rule]) return state();
    if (facts_.inlined[rule]) return add(grammar_.rules[rule].terms[0].part, from);
    const uint32_t to = state();
    edge(from, {.kind = Nfa::Kind::call, .to = to, .rule = rule});
    return to;
  }

  uint32_t add_text(std::string_view text, uint32_t from) {
    if (text.empty()) {
      const uint32_t to = state();
      skip(from, to);
      return to;
    }
    for (const char c : text) {
      const uint32_t to = state();
      const auto byte = static_cast<uint8_t>(c);
      edge(from, {.kind = Nfa::Kind::bytes, .first = byte, .last = byte, .to = to});
      from = to;
    }
    return from;
  }

  // Texts share what they begin with.
  void add_texts(std::vector<std::string_view> texts, uint32_t from, uint32_t to) {
    std::ranges::sort(texts);
    std::vector<uint32_t> path{from}; // the states of the last text's bytes
    std::string_view last;
    for (const std::string_view text : texts) {
      path.resize(1 + static_cast<size_t>(std::ranges::mismatch(last, text).in1 - last.begin()));
      while (path.size() <= text.size())
        path.push_back(add_text(text.substr(path.size() - 1, 1), path.back()));
      skip(path.back(), to);
      last = text;
    }
  }

  // Sequences with the same end share it.
  uint32_t add_characters(const Characters& characters, uint32_t from) {
    const uint32_t to = state();
    std::map<std::string, uint32_t> before; // the states before the bytes of these ranges
    for (const ByteSequence& sequence : utf8_of(characters)) {
      std::string rest;
      uint32_t next = to;
      for (size_t i = sequence.size(); i-- > 0;) {
        const Nfa::Edge there{
            .kind = Nfa::Kind::bytes, .first = sequence[i].first, .last = sequence[i].last, .to = next};
        if (i == 0) {
          edge(from, there);
          break;
        }
        rest += {static_cast<char>(there.first), static_cast<char>(there.last)};
        const auto [at, added] = before.try_emplace(rest, 0);
        if (added) {
          at->second = state();
          edge(at->second, there);
        }
        next = at->second;
      }
    }
    return to;
  }

  uint32_t add_repeat(const Grammar::Node& node, uint32_t from) {
    const Part part = node.parts[0];
    if (node.least == 0 && !is_possible(part)) return add_text("", from);
    if (node.least == 0 && node.most == 1) {
      const uint32_t end = add(part, from), to = state();
      skip(end, to);
      skip(from, to);
      return to;
    }
    if (node.most == unlimited && (node.least <= 1 || is_nullable(grammar_, facts_, part))) {
      const uint32_t begin = state(), end = add(part, begin), to = state();
      skip(from, begin);
      skip(end, begin);
      skip(node.least == 0 ? begin : end, to);
      return to;
    }
    if (loop_ != Nfa::no_loop) return add_copies(node, from);
    const uint32_t outside = std::exchange(loop_, static_cast<uint32_t>(nfa_.loops.size()));
    nfa_.loops.push_back({is_nullable(grammar_, facts_, part) ? 0 : node.least, node.most});
    const uint32_t round = state(), begin = state();
    skip(from, round);
    edge(round, {.kind = Nfa::Kind::more, .to = begin});
    edge(add(part, begin), {.kind = Nfa::Kind::again, .to = round});
    loop_ = outside;
    const uint32_t to = state();
    edge(round, {.kind = Nfa::Kind::leave, .to = to});
    return to;
  }

  uint32_t add_copies(const Grammar::Node& node, uint32_t from) {
    for (uint32_t i = 0; i < node.least && !full(); ++i) from = add(node.parts[0], from);
    if (node.most == unlimited) {
      const uint32_t begin = state(), to = state();
      skip(from, begin);
      skip(add(node.parts[0], begin), begin);
      skip(begin, to);
      return to;
    }
    const uint32_t to = state();
    for (uint32_t i = node.least; i < node.most && !full(); ++i) {
      skip(from, to);
      from = add(node.parts[0], from);
    }
    skip(from, to);
    return to;
  }

  // Two rows of states: nothing was there yet, and something was, so that a separator comes first.
  uint32_t add_list(const Grammar::Node& node, uint32_t nothing) {
    const Part separator = node.parts[0];
    uint32_t something = state();
    for (size_t i = 1; i < node.parts.size() && !full(); ++i) {
      const Grammar::Node& each = grammar_.parts[node.parts[i]];
      const bool repeated = each.kind == Kind::repeat;
      if (repeated && each.least == 0 && !is_possible(each.parts[0])) continue;
      const uint32_t begin = state();
      skip(nothing, begin);
      skip(add(separator, something), begin);
      const uint32_t end = add(repeated ? each.parts[0] : node.parts[i], begin);
      const uint32_t without = state(), with = state();
      skip(end, with);
      if (repeated && each.least == 0) {
        skip(nothing, without);
        skip(something, with);
      }
      if (repeated && each.most == unlimited) skip(add(separator, end), begin);
      nothing = without;
      something = with;
    }
    const uint32_t to = state();
    skip(nothing, to);
    skip(something, to);
    return to;
  }

  const Grammar& grammar_;
  const RuleFacts& facts_;
  Nfa nfa_;
  std::vector<std::pair<uint32_t, Nfa::Edge>> edges_;
  uint32_t states_ = 0;
  uint32_t loop_ = Nfa::no_loop; // that counts here
};

} // namespace

Result<Nfa> make_nfa(const Grammar& grammar, const RuleFacts& facts, uint32_t rule) {
  return NfaBuilder(grammar, facts).build(rule);
}

} // namespace pumice::form
