#include "form/form.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include <fmt/format.h>

namespace pumice {

using form::LocalMask;
using form::State;
using form::TokenTree;

namespace {

// Most ways to go on at a place.
constexpr size_t most_threads = 512;
// Most rules that call each other at a place: a form goes no deeper.
constexpr uint32_t most_depth = 2'000;
// Most different calls of rules by rules that were ever reached.
constexpr size_t most_frames = 1'000'000;
// Most bytes that the states of its automata take.
constexpr size_t most_bytes = 512 << 20;
// More tokens than these are kept as bits.
constexpr size_t few_tokens = 512;

void set(std::span<uint32_t> bits, uint32_t token) {
  if (token / 32 < bits.size()) bits[token / 32] |= 1U << token % 32;
}
void clear(std::span<uint32_t> bits, uint32_t token) {
  if (token / 32 < bits.size()) bits[token / 32] &= ~(1U << token % 32);
}
bool has(std::span<const uint32_t> bits, uint32_t token) {
  return (bits[token / 32] >> token % 32 & 1) != 0;
}

bool is_plain_byte(uint32_t byte) {
  return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

// Longer sources are not compared.
constexpr size_t most_kept_source = 1 << 16;

// Different for sources that are different.
std::string name_of(const FormSource& source) {
  std::string name;
  for (const std::string* each : {&source.regex, &source.json_schema, &source.grammar})
    name += fmt::format("{} {} ", each->size(), *each);
  for (const std::string& choice : source.choices) name += fmt::format("{} {} ", choice.size(), choice);
  return name;
}

Error too_many_states() {
  return Error{Code::unsupported,
               "the form has too many states: use fewer repetitions and fewer alternatives that begin alike"};
}

struct Continuation {
  uint8_t first, last; // of the second byte
  uint32_t more;       // bytes after it
};
Continuation continuation_of(uint32_t lead) {
  switch (lead) {
  case 0xE0:
    return {0xA0, 0xBF, 1};
  case 0xED:
    return {0x80, 0x9F, 1};
  case 0xF0:
    return {0x90, 0xBF, 2};
  case 0xF4:
    return {0x80, 0x8F, 2};
  default:
    return {0x80, 0xBF, lead < 0xE0 ? 0U : lead < 0xF0 ? 1U : 2U};
  }
}

} // namespace

bool has_form(const FormSource& source) {
  return source != FormSource();
}

Result<form::Grammar> parse_form(const FormSource& source) {
  const size_t given = !source.choices.empty() + !source.regex.empty() + !source.json_schema.empty() +
                       size_t{!source.grammar.empty()};
  if (given != 1) {
    return Error{Code::invalid_argument,
                 "a form is choices, a regular expression, a JSON schema or a grammar: give exactly one"};
  }
  if (!source.choices.empty()) return form::parse_choices(source.choices);
  if (!source.regex.empty()) return form::parse_regex(source.regex);
  if (!source.json_schema.empty()) return form::parse_json_schema(source.json_schema);
  return form::is_lark(source.grammar) ? form::parse_lark(source.grammar) : form::parse_gbnf(source.grammar);
}

bool is_grammar(std::string_view text) {
  return text.find("::=") != std::string_view::npos || text.find("start:") != std::string_view::npos;
}

Result<std::shared_ptr<Form>> Form::create(const FormSource& source,
                                           std::shared_ptr<FormVocabulary> vocabulary) {
  PUMICE_TRY(const form::Grammar grammar, parse_form(source));
  PUMICE_TRY(std::shared_ptr<Form> form, create(grammar, std::move(vocabulary)));
  if (std::string name = name_of(source); name.size() <= most_kept_source) form->source_ = std::move(name);
  return form;
}

Result<std::shared_ptr<Form>> Form::create(const form::Grammar& grammar,
                                           std::shared_ptr<FormVocabulary> vocabulary) {
  std::shared_ptr<Form> form(new Form(std::move(vocabulary)));
  PUMICE_CHECK(form->make(grammar));
  return form;
}

Status Form::make(const form::Grammar& grammar) {
  const std::lock_guard lock(vocabulary_->lock());
  form::append_number(source_, vocabulary_->new_number());
  if (grammar.too_deep) return Error{Code::unsupported, "the form has too many parts within each other"};
  automata_.resize(grammar.rules.size());
  std::unordered_set<const form::Automaton*> known;
  size_t edges = 0, followed = 0, bytes = 0;
  const auto is_large = [&](const std::shared_ptr<form::Automaton>& automaton, size_t own) {
    if (known.insert(automaton.get()).second) edges += own;
    return edges > 2 * form::most_nfa_states || followed > form::most_edges_followed ||
           bytes > form::most_state_bytes;
  };
  std::vector<bool> contradictory(grammar.rules.size());
  for (uint32_t rule = 0; rule < grammar.rules.size(); ++rule) {
    if (grammar.rules[rule].terms.size() < 2) continue;
    PUMICE_TRY(form::Nfa nfa, form::make_nfa(grammar, {}, rule));
    const size_t own = nfa.edges.size();
    automata_[rule] = vocabulary_->shared(std::move(nfa));
    followed -= automata_[rule]->edges_followed();
    bytes -= automata_[rule]->state_bytes();
    contradictory[rule] = !automata_[rule]->possible();
    followed += automata_[rule]->edges_followed();
    bytes += automata_[rule]->state_bytes();
    if (automata_[rule]->too_large()) return too_many_states();
    if (is_large(automata_[rule], own)) return Error{Code::unsupported, "the form is too large"};
  }
  PUMICE_TRY(const form::RuleFacts facts, form::rule_facts(grammar, contradictory));
  std::vector<form::Automaton*> callees(grammar.rules.size());
  std::vector<uint32_t> left{grammar.root};
  while (!left.empty()) {
    const uint32_t rule = left.back();
    left.pop_back();
    if (callees[rule]) continue;
    if (automata_[rule]) {
      callees[rule] = automata_[rule].get();
      continue;
    }
    PUMICE_TRY(form::Nfa nfa, form::make_nfa(grammar, facts, rule));
    const size_t before = left.size();
    for (const form::Nfa::Edge& edge : nfa.edges) {
      if (edge.kind == form::Nfa::Kind::call) left.push_back(edge.rule);
    }
    const size_t own = nfa.edges.size();
    automata_[rule] = left.size() == before ? vocabulary_->shared(std::move(nfa))
                                            : std::make_shared<form::Automaton>(std::move(nfa));
    callees[rule] = automata_[rule].get();
    if (is_large(automata_[rule], own)) return Error{Code::unsupported, "the form is too large"};
  }
  for (const auto& automaton : automata_) {
    if (automaton && !automaton->has_callees()) automaton->set_callees(callees);
  }
  add(start_, {automata_[grammar.root]->start(), 0});
  close(start_);
  return checked();
}

Status Form::checked() const {
  size_t bytes = 0;
  bool large = too_large_;
  for (const auto& automaton : automata_) {
    if (!automaton) continue;
    bytes += automaton->state_bytes();
    large = large || automaton->too_large();
  }
  return large || bytes > most_bytes ? Status(too_many_states()) : Status();
}

void Form::add(FormPlace& place, Thread thread) {
  if (std::ranges::find(place.threads, thread) != place.threads.end()) return;
  if (place.threads.size() >= most_threads) {
    too_large_ = true;
    return;
  }
  place.threads.push_back(thread);
}

uint32_t Form::push(const State* back, uint32_t below) {
  const auto [known, added] = known_frames_.try_emplace({back, below}, static_cast<uint32_t>(frames_.size()));
  if (added) frames_.push_back({back, below, frames_[below].depth + 1});
  too_large_ = too_large_ || frames_.size() > most_frames;
  return known->second;
}

// Goes into the rules that are called, and back from those that may end.
void Form::close(FormPlace& place) {
  for (size_t i = 0; i < place.threads.size() && !too_large_; ++i) {
    const Thread thread = place.threads[i];
    for (const State::Call& call : thread.at->calls) {
      // Nothing else may follow: the rule that is called goes back to where this one would. That keeps lists
      // that are written as recursion from growing.
      const bool last = call.back->only_ends();
      if (!last && frames_[thread.stack].depth >= most_depth) continue;
      add(place, {call.begin, last ? thread.stack : push(call.back, thread.stack)});
    }
    if (!thread.at->ends) continue;
    if (thread.stack == 0) {
      place.may_end = true;
    } else {
      const Frame frame = frames_[thread.stack];
      add(place, {frame.back->owner->reach(frame.back), frame.below});
    }
  }
  std::erase_if(place.threads, [](const Thread& thread) { return !thread.at->has_bytes; });
}

void Form::step(const FormPlace& from, uint8_t byte, FormPlace& to) {
  to.threads.clear();
  to.may_end = false;
  bool closed = true;
  for (const Thread& thread : from.threads) {
    const State* next = thread.at->owner->next(thread.at, byte);
    if (!next) continue;
    closed = closed && !next->ends && next->calls.empty();
    add(to, {next, thread.stack});
  }
  if (!closed) close(to);
}

// Sets the bits of the tokens that lead on from a place. With `ends`, notes where the text may end while
// longer tokens go on.
void Form::walk(const TokenTree& tree, const FormPlace& from, std::span<uint32_t> bits,
                std::vector<std::pair<const TokenTree*, uint32_t>>* ends) {
  std::vector<FormPlace> places(tree.deepest + 1);
  places[0] = from;
  const bool plain = &tree == &vocabulary_->plain_tree();
  for (uint32_t i = 0; i < tree.nodes.size() && !too_large_;) {
    const TokenTree::Node& node = tree.nodes[i];
    FormPlace& to = places[node.depth];
    step(places[node.depth - 1U], node.byte, to);
    if (to.threads.empty() && !to.may_end) {
      i = node.after;
      continue;
    }
    for (uint32_t n = 0; n < node.token_count; ++n) set(bits, tree.tokens[node.first_token + n]);
    if (to.may_end && ends && node.after > i + 1) ends->emplace_back(&tree, i);
    if (to.threads.empty()) {
      i = node.after;
    } else if (plain && node.characters_below > 0 && to.threads.size() == 1 && !to.may_end &&
               plain_reach(to.threads[0].at) >= node.characters_below) {
      for (const uint32_t token : tree.below(i)) set(bits, token);
      i = node.after;
    } else {
      ++i;
    }
  }
}

// Whether every plain character leads to the same state.
bool Form::is_plain_step(const State* at, const State*& to) {
  form::Automaton& owner = *at->owner;
  to = owner.next(at, ' ');
  if (!to || to->ends || !to->calls.empty()) return false;
  for (uint32_t byte = 0x20; byte < 0x80; ++byte) {
    if (is_plain_byte(byte) && owner.next(at, static_cast<uint8_t>(byte)) != to) return false;
  }
  std::vector<std::pair<const State*, uint32_t>> seen; // with the bytes that are left
  const auto leads = [&](auto& self, const State* from, uint32_t first, uint32_t last,
                         uint32_t more) -> bool {
    if (std::ranges::find(seen, std::pair(from, first << 16 | last << 8 | more)) != seen.end()) return true;
    seen.emplace_back(from, first << 16 | last << 8 | more);
    for (uint32_t byte = first; byte <= last; ++byte) {
      const State* next = owner.next(from, static_cast<uint8_t>(byte));
      if (!next || (more == 0 ? next != to : !self(self, next, 0x80, 0xBF, more - 1))) return false;
    }
    return true;
  };
  for (uint32_t lead = 0xC2; lead <= 0xF4; ++lead) {
    const State* next = owner.next(at, static_cast<uint8_t>(lead));
    const auto [first, last, more] = continuation_of(lead);
    if (!next || !leads(leads, next, first, last, more)) return false;
  }
  return true;
}

// How many plain characters may follow, whichever they are, where no more of them may; 0 if that is not so.
uint32_t Form::plain_reach(const State* at) {
  if (at->plain_reach >= 0) return static_cast<uint32_t>(at->plain_reach);
  uint32_t reach = 0;
  const State* to = nullptr;
  for (const State* from = at; reach < FormVocabulary::longest_plain; from = to) {
    if (!is_plain_step(from, to)) {
      for (uint32_t byte = 0x20; byte < 0xF5; ++byte) {
        const bool plain = is_plain_byte(byte) || byte >= 0xC2;
        if (plain && from->owner->next(from, static_cast<uint8_t>(byte))) reach = 0;
      }
      break;
    }
    reach = from == to ? FormVocabulary::longest_plain : reach + 1;
  }
  const_cast<State*>(at)->plain_reach = static_cast<int32_t>(reach); // owned by an automaton
  return reach;
}

const LocalMask& Form::local_mask(const State* at) {
  if (const LocalMask* known = at->owner->mask(at, vocabulary_->longest())) return *known;
  LocalMask mask;
  mask.bits.resize((vocabulary_->size() + 31) / 32);
  FormPlace from;
  from.threads = {{at, 0}};
  std::vector<std::pair<const TokenTree*, uint32_t>> ends;
  if (const uint32_t reach = plain_reach(at)) {
    mask.bits = vocabulary_->plain(reach);
  } else {
    walk(vocabulary_->plain_tree(), from, mask.bits, &ends);
  }
  walk(vocabulary_->others(), from, mask.bits, &ends);

  std::vector<std::pair<std::string_view, uint32_t>> leaving;
  for (const auto& [tree, node] : ends) {
    for (const uint32_t token : tree->below(node)) {
      if (!has(mask.bits, token))
        leaving.emplace_back(vocabulary_->bytes(token).substr(tree->nodes[node].depth), token);
    }
  }
  mask.leaving = TokenTree(std::move(leaving));
  for (uint32_t i = 0; i < mask.bits.size() && mask.few.size() <= few_tokens; ++i) {
    for (uint32_t left = mask.bits[i]; left; left &= left - 1)
      mask.few.push_back(32 * i + static_cast<uint32_t>(std::countr_zero(left)));
  }
  (mask.few.size() <= few_tokens ? mask.bits : mask.few) = {};
  return *at->owner->keep_mask(at, vocabulary_->longest(), std::move(mask));
}

Status Form::mask(const FormPlace& place, std::span<const uint32_t> end_tokens, std::span<uint32_t> bits) {
  const std::lock_guard lock(vocabulary_->lock());
  std::ranges::fill(bits, 0U);
  for (const Thread& thread : place.threads) {
    const LocalMask& local = local_mask(thread.at);
    for (size_t i = 0; i < std::min(bits.size(), local.bits.size()); ++i) bits[i] |= local.bits[i];
    for (const uint32_t token : local.few) set(bits, token);
    if (thread.stack == 0 || local.leaving.nodes.empty()) continue;
    const Frame frame = frames_[thread.stack];
    FormPlace after;
    add(after, {frame.back->owner->reach(frame.back), frame.below});
    close(after);
    walk(local.leaving, after, bits, nullptr);
  }
  for (const uint32_t token : end_tokens) {
    if (place.may_end) set(bits, token);
    if (!place.may_end && form::is_special(vocabulary_->bytes(token))) clear(bits, token);
  }
  return checked();
}

Result<std::optional<uint32_t>> Form::only_token(const FormPlace& place, std::span<const uint32_t> end_tokens,
                                                 uint32_t tokens) {
  std::optional<uint32_t> only;
  if (!place.threads.empty()) {
    PUMICE_TRY(const std::string byte, forced(place, 1));
    if (byte.empty()) return only;
  }
  std::vector<uint32_t> bits((tokens + 31) / 32);
  PUMICE_CHECK(mask(place, end_tokens, bits));
  for (uint32_t i = 0; i < bits.size(); ++i) {
    for (uint32_t left = bits[i]; left; left &= left - 1) {
      const uint32_t token = 32 * i + static_cast<uint32_t>(std::countr_zero(left));
      if (token >= tokens) break;
      if (only) return std::optional<uint32_t>();
      only = token;
    }
  }
  return only;
}

Result<bool> Form::accept(FormPlace& place, uint32_t token) {
  const std::string_view bytes = vocabulary_->bytes(token);
  return bytes.empty() ? Result<bool>(false) : accept(place, bytes);
}

Result<bool> Form::accept(FormPlace& place, std::string_view bytes) {
  const std::lock_guard lock(vocabulary_->lock());
  FormPlace next;
  for (const char c : bytes) {
    step(place, static_cast<uint8_t>(c), next);
    std::swap(place, next);
    if (place.threads.empty() && !place.may_end) break;
  }
  PUMICE_CHECK(checked());
  return !place.threads.empty() || place.may_end;
}

Result<std::string> Form::forced(FormPlace place, size_t most) {
  const std::lock_guard lock(vocabulary_->lock());
  std::string bytes;
  FormPlace next, only;
  while (!place.may_end && bytes.size() < most) {
    uint32_t ways = 0;
    for (uint32_t byte = 0; byte < 256 && ways < 2; ++byte) {
      step(place, static_cast<uint8_t>(byte), next);
      if (next.threads.empty() && !next.may_end) continue;
      if (++ways == 1) {
        bytes += static_cast<char>(byte);
        std::swap(only, next);
      }
    }
    if (ways != 1) {
      if (ways > 1) bytes.pop_back();
      break;
    }
    std::swap(place, only);
  }
  PUMICE_CHECK(checked());
  return bytes;
}

} // namespace pumice
