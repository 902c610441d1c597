#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "form/nfa.h"

namespace pumice::form {

namespace {

using Kind = Grammar::Kind;

// Most parts of a rule that is inlined, with those that it inlines.
constexpr size_t most_inlined_parts = 64;

class Facts {
public:
  Facts(const Grammar& grammar, const std::vector<bool>& contradictory)
      : grammar_(grammar), contradictory_(contradictory), size_(grammar.rules.size()) {
    result_.possible.resize(grammar.rules.size());
    result_.nullable.resize(grammar.rules.size());
    result_.inlined.resize(grammar.rules.size());
  }

  Result<RuleFacts> find() {
    order();
    for (bool changed = true; changed;) {
      changed = false;
      for (const uint32_t rule : order_) changed = update(rule) || changed;
    }
    if (!result_.possible[grammar_.root]) {
      return Error{Code::invalid_argument,
                   fmt::format("no text has this form: {} contradicts itself or never comes to an end",
                               grammar_.rules[grammar_.root].name)};
    }
    PUMICE_CHECK(check_left_recursion());
    for (const uint32_t rule : order_) {
      const Grammar::Rule& each = grammar_.rules[rule];
      size_t sum = 1;
      for (const Grammar::Term& term : each.terms) sum += size(term.part);
      size_[rule] = sum;
      result_.inlined[rule] = !each.separate && each.terms.size() == 1 && size_[rule] <= most_inlined_parts;
    }
    for (Part part = 0; part < grammar_.parts.size(); ++part)
      result_.possible_parts.push_back(
          is_possible(part, [&](Part each) { return result_.possible_parts[each]; }));
    return std::move(result_);
  }

private:
  // The rules that the root needs, those that a rule calls before it where they do not call each other.
  void order() {
    std::vector<uint8_t> seen(grammar_.rules.size());
    std::vector<std::pair<uint32_t, std::vector<uint32_t>>> stack;
    const auto enter = [&](uint32_t rule) {
      seen[rule] = 1;
      stack.emplace_back(rule, std::vector<uint32_t>());
      for (const Grammar::Term& term : grammar_.rules[rule].terms) calls(term.part, stack.back().second);
    };
    enter(grammar_.root);
    while (!stack.empty()) {
      std::vector<uint32_t>& left = stack.back().second;
      if (left.empty()) {
        order_.push_back(stack.back().first);
        stack.pop_back();
        continue;
      }
      const uint32_t next = left.back();
      left.pop_back();
      if (!seen[next]) enter(next);
    }
  }

  void calls(Part part, std::vector<uint32_t>& rules) const {
    const Grammar::Node& node = grammar_.parts[part];
    if (node.kind == Kind::rule) rules.push_back(node.rule);
    for (const Part each : node.parts) calls(each, rules);
  }

  bool update(uint32_t rule) {
    bool possible = !contradictory_[rule], empty = true;
    for (const Grammar::Term& term : grammar_.rules[rule].terms) {
      possible = possible && (term.negated || is_possible(term.part));
      empty = empty && is_nullable(term.part) != term.negated;
    }
    const bool changed = possible != result_.possible[rule] || empty != result_.nullable[rule];
    result_.possible[rule] = possible;
    result_.nullable[rule] = empty;
    return changed;
  }

  // `possible`: of the parts within it.
  template <class Possible>
  bool is_possible(Part part, const Possible& possible) const {
    const Grammar::Node& node = grammar_.parts[part];
    switch (node.kind) {
    case Kind::never:
      return false;
    case Kind::text:
    case Kind::characters:
      return true;
    case Kind::sequence:
    case Kind::list:
      return std::ranges::all_of(node.parts, possible);
    case Kind::choice:
      return std::ranges::any_of(node.parts, possible);
    case Kind::repeat:
      return node.least == 0 || possible(node.parts[0]);
    case Kind::rule:
      return result_.possible[node.rule];
    }
    return false;
  }
  bool is_possible(Part part) const {
    return is_possible(part, [this](Part each) { return is_possible(each); });
  }

  bool is_nullable(Part part) const { return form::is_nullable(grammar_, result_, part); }

  // The rules that may be the first of a text of the part.
  void first_calls(Part part, std::vector<uint32_t>& rules) const {
    const Grammar::Node& node = grammar_.parts[part];
    if (node.kind == Kind::rule) rules.push_back(node.rule);
    for (const Part each : node.parts) {
      first_calls(each, rules);
      if (node.kind == Kind::sequence && !is_nullable(each)) break;
    }
  }

  Status check_left_recursion() const {
    enum : uint8_t { fresh, open, done };
    std::vector<uint8_t> state(grammar_.rules.size(), fresh);
    for (const uint32_t from : order_) {
      std::vector<std::pair<uint32_t, std::vector<uint32_t>>> stack;
      const auto enter = [&](uint32_t rule) {
        state[rule] = open;
        stack.emplace_back(rule, std::vector<uint32_t>());
        for (const Grammar::Term& term : grammar_.rules[rule].terms)
          first_calls(term.part, stack.back().second);
      };
      if (state[from] == fresh) enter(from);
      while (!stack.empty()) {
        std::vector<uint32_t>& left = stack.back().second;
        if (left.empty()) {
          state[stack.back().first] = done;
          stack.pop_back();
          continue;
        }
        const uint32_t next = left.back();
        left.pop_back();
        if (state[next] == open) {
          return Error{Code::unsupported,
                       fmt::format("{} begins with itself (left recursion): let it begin with something else",
                                   grammar_.rules[next].name)};
        }
        if (state[next] == fresh) enter(next);
      }
    }
    return {};
  }

  // Parts with what is inlined. A rule that is not known yet calls itself, and is never inlined.
  size_t size(Part part) const {
    const Grammar::Node& node = grammar_.parts[part];
    size_t sum = 1 + node.text.size() + node.characters.size();
    if (node.kind == Kind::rule) {
      if (size_[node.rule] == 0) return most_inlined_parts + 1;
      if (result_.inlined[node.rule]) sum += size_[node.rule];
    }
    for (const Part each : node.parts) sum += size(each);
    return sum;
  }

  const Grammar& grammar_;
  const std::vector<bool>& contradictory_;
  RuleFacts result_;
  std::vector<size_t> size_;
  std::vector<uint32_t> order_;
};

} // namespace

bool is_nullable(const Grammar& grammar, const RuleFacts& facts, Part part) {
  const Grammar::Node& node = grammar.parts[part];
  const auto nullable = [&](Part each) { return is_nullable(grammar, facts, each); };
  switch (node.kind) {
  case Kind::never:
  case Kind::characters:
    return false;
  case Kind::text:
    return node.text.empty();
  case Kind::sequence:
    return std::ranges::all_of(node.parts, nullable);
  case Kind::list:
    return std::all_of(node.parts.begin() + 1, node.parts.end(), nullable);
  case Kind::choice:
    return std::ranges::any_of(node.parts, nullable);
  case Kind::repeat:
    return node.least == 0 || nullable(node.parts[0]);
  case Kind::rule:
    return facts.nullable[node.rule];
  }
  return false;
}

Result<RuleFacts> rule_facts(const Grammar& grammar, const std::vector<bool>& contradictory) {
  return Facts(grammar, contradictory).find();
}

} // namespace pumice::form
