// Forms become tables in two steps: first an automaton over bytes, then, for each token, where its bytes lead
// from all places of that. Most tokens of a vocabulary are plain (FormVocabulary::characters()). Where each
// plain character leads to the same place, as within a string of JSON, a plain token's number of characters
// says all about it: the tree of plain tokens is walked for the other places alone.
#include "form/form_table.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <unordered_map>
#include <utility>

#include "form/form.h"

namespace pumice {

namespace {

constexpr uint16_t nowhere = 0xFFFF;
// Bytes that are tried and steps of walks: a few milliseconds of them.
constexpr size_t most_work = 4'000'000;
// Most ways to go on at a place.
constexpr size_t most_ways = 16;
// Rules that call each other deeper are likely to do so without end.
constexpr uint32_t most_table_depth = 24;
constexpr uint32_t most_classes = 8192;

struct ByteAutomaton {
  struct Place {
    std::array<uint16_t, 256> next;
    bool may_end = false;
  };
  std::vector<Place> places;
};

bool is_plain(uint32_t byte) {
  return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
}

// The second bytes that may follow a first byte in UTF-8, and how many follow them.
struct Rest {
  uint32_t first = 0x80, last = 0xBF, more = 0;
};
Rest rest_of(uint32_t lead) {
  Rest rest{0x80, 0xBF, lead < 0xE0 ? 0U : lead < 0xF0 ? 1U : 2U};
  if (lead == 0xE0) rest.first = 0xA0;
  if (lead == 0xF0) rest.first = 0x90;
  if (lead == 0xED) rest.last = 0x9F;
  if (lead == 0xF4) rest.last = 0x8F;
  return rest;
}

// Makes the table of an automaton.
class TableMaker {
public:
  TableMaker(const ByteAutomaton& automaton, const FormVocabulary& vocabulary, size_t work)
      : places_(automaton.places), vocabulary_(vocabulary), work_(work) {}

  // Null: it would be too large, or some text could not go on.
  std::shared_ptr<const FormTable> make(uint32_t tokens, std::span<const uint32_t> end_tokens);

private:
  // Of a class: how its tokens lead on from uniform places, as a number in uniform_, and from others, as
  // place << 16 | where to.
  struct Behaviour {
    uint32_t uniform = 0;
    std::vector<uint32_t> others;
    bool operator==(const Behaviour&) const = default;
  };
  struct Hash {
    size_t operator()(const Behaviour& behaviour) const {
      uint64_t hash = behaviour.uniform;
      for (const uint32_t each : behaviour.others)
        hash = (hash ^ each) * 0x9E3779B97F4A7C15U, hash ^= hash >> 29;
      return static_cast<size_t>(hash);
    }
  };

  bool is_whole_step(uint16_t from, uint32_t first, uint32_t last, uint32_t more, uint16_t to,
                     std::vector<uint32_t>& seen);
  std::optional<uint16_t> plain_step(const ByteAutomaton::Place& from);
  void find_uniform();
  void count_uniform();
  uint16_t class_of(uint32_t uniform, const std::vector<uint32_t>& others);
  bool walk(const form::TokenTree& tree, std::vector<uint32_t> from, bool plain);
  std::vector<uint16_t> steps_of(uint16_t token_class) const;
  bool add_end(uint32_t token);
  bool fill_places();
  bool keep_reached();

  const std::vector<ByteAutomaton::Place>& places_;
  const FormVocabulary& vocabulary_;
  size_t work_;
  // Of each place: where every plain character leads to, which may be nowhere; nothing: it differs.
  std::vector<std::optional<uint16_t>> uniform_step_;
  // Where texts of plain characters lead from each place; the first one: nowhere.
  std::vector<std::vector<uint16_t>> uniform_;
  std::array<uint32_t, FormVocabulary::longest_plain + 1> uniform_of_ = {}; // by the number of characters
  std::deque<Behaviour> behaviours_;                                        // of each class
  std::unordered_map<Behaviour, uint16_t, Hash> known_;
  Behaviour last_;
  uint16_t last_class_ = 0;
  FormTable table_;
};

// Whether all that may come of a character's bytes leads to one place.
bool TableMaker::is_whole_step(uint16_t from, uint32_t first, uint32_t last, uint32_t more, uint16_t to,
                               std::vector<uint32_t>& seen) {
  const uint32_t key = uint32_t{from} << 2 | more;
  const bool usual = first == 0x80 && last == 0xBF;
  if (usual && std::ranges::find(seen, key) != seen.end()) return true;
  if (usual) seen.push_back(key);
  for (uint32_t byte = first; byte <= last; ++byte) {
    const uint16_t next = places_[from].next[byte];
    if (next == nowhere) return false;
    if (more == 0 ? next != to : !is_whole_step(next, 0x80, 0xBF, more - 1, to, seen)) return false;
  }
  return true;
}

std::optional<uint16_t> TableMaker::plain_step(const ByteAutomaton::Place& from) {
  const uint16_t to = from.next[' '];
  for (uint32_t byte = 0x20; byte < 0x80; ++byte) {
    if (is_plain(byte) && from.next[byte] != to) return {};
  }
  std::vector<uint32_t> seen;
  for (uint32_t lead = 0xC2; lead <= 0xF4; ++lead) {
    const uint16_t next = from.next[lead];
    if ((next == nowhere) != (to == nowhere)) return {};
    const Rest rest = rest_of(lead);
    if (next != nowhere && !is_whole_step(next, rest.first, rest.last, rest.more, to, seen)) return {};
  }
  return to;
}

// A uniform place leads on to uniform places, or nowhere.
void TableMaker::find_uniform() {
  for (const ByteAutomaton::Place& place : places_) uniform_step_.push_back(plain_step(place));
  for (bool again = true; again;) {
    again = false;
    for (std::optional<uint16_t>& step : uniform_step_) {
      if (!step || *step == nowhere || uniform_step_[*step]) continue;
      step.reset();
      again = true;
    }
  }
}

void TableMaker::count_uniform() {
  std::vector<uint16_t> to(places_.size(), nowhere);
  uniform_.push_back(to);
  for (size_t place = 0; place < places_.size(); ++place) {
    if (uniform_step_[place]) to[place] = static_cast<uint16_t>(place);
  }
  for (uint32_t n = 1; n <= FormVocabulary::longest_plain; ++n) {
    for (uint16_t& each : to) each = each == nowhere ? nowhere : *uniform_step_[each];
    const auto known = std::ranges::find(uniform_, to);
    uniform_of_[n] = static_cast<uint32_t>(known - uniform_.begin());
    if (known == uniform_.end()) uniform_.push_back(to);
  }
}

uint16_t TableMaker::class_of(uint32_t uniform, const std::vector<uint32_t>& others) {
  // Neighbours in the tree are often alike.
  if (last_.uniform == uniform && last_.others == others) return last_class_;
  last_ = {uniform, others};
  const auto [known, added] = known_.try_emplace(last_, static_cast<uint16_t>(behaviours_.size()));
  if (added) behaviours_.push_back(last_);
  return last_class_ = known->second;
}

// Gives the tokens of a tree that lead on from these places (place << 16 | place) their classes.
bool TableMaker::walk(const form::TokenTree& tree, std::vector<uint32_t> from, bool plain) {
  std::vector<std::vector<uint32_t>> levels(tree.deepest + 1);
  levels[0] = std::move(from);
  for (uint32_t i = 0; i < tree.nodes.size();) {
    const form::TokenTree::Node& node = tree.nodes[i];
    const std::vector<uint32_t>& before = levels[node.depth - 1U];
    std::vector<uint32_t>& after = levels[node.depth];
    after.clear();
    for (const uint32_t each : before) {
      const uint16_t next = places_[each & 0xFFFF].next[node.byte];
      if (next != nowhere) after.push_back((each & 0xFFFF0000) | next);
    }
    work_ += before.size() + 1;
    if (work_ > most_work || behaviours_.size() > most_classes) return false;
    if (after.empty()) {
      i = node.after;
      continue;
    }
    for (uint32_t n = 0; n < node.token_count; ++n) {
      const uint32_t token = tree.tokens[node.first_token + n];
      if (token >= table_.classes.size()) continue;
      table_.classes[token] = class_of(plain ? uniform_of_[vocabulary_.characters(token)] : 0, after);
    }
    ++i;
  }
  return true;
}

// Where a class leads from each place.
std::vector<uint16_t> TableMaker::steps_of(uint16_t token_class) const {
  const Behaviour& behaviour = behaviours_[token_class];
  std::vector<uint16_t> to = uniform_[behaviour.uniform];
  for (const uint32_t each : behaviour.others) to[each >> 16] = static_cast<uint16_t>(each);
  return to;
}

// An end token may follow where the text may end, and a special one only there.
bool TableMaker::add_end(uint32_t token) {
  if (token >= table_.classes.size()) return true;
  std::vector<uint16_t> to = steps_of(table_.classes[token]);
  const bool special = form::is_special(vocabulary_.bytes(token));
  std::vector<uint32_t> steps;
  for (uint32_t place = 0; place < to.size(); ++place) {
    if (places_[place].may_end) {
      to[place] = static_cast<uint16_t>(place);
    } else if (special) {
      to[place] = nowhere;
    }
    if (to[place] != nowhere) steps.push_back(place << 16 | to[place]);
  }
  table_.classes[token] = class_of(0, steps);
  return behaviours_.size() <= most_classes;
}

bool TableMaker::fill_places() {
  table_.class_count = static_cast<uint32_t>(behaviours_.size());
  table_.places.resize(places_.size());
  size_t count = 0;
  for (uint32_t each = 1; each < table_.class_count; ++each) {
    const std::vector<uint16_t> to = steps_of(static_cast<uint16_t>(each));
    for (size_t place = 0; place < to.size(); ++place) {
      if (to[place] == nowhere) continue;
      table_.places[place].push_back({static_cast<uint16_t>(each), to[place]});
      if (++count > FormTable::most_steps) return false;
    }
  }
  return true;
}

// Leaves out places that no tokens lead to. False: a text would come to a place where nothing may follow.
bool TableMaker::keep_reached() {
  std::vector<uint16_t> number(places_.size(), nowhere);
  std::vector<uint16_t> reached{0};
  number[0] = 0;
  for (size_t i = 0; i < reached.size(); ++i) {
    if (table_.places[reached[i]].empty()) return false;
    for (FormTable::Step& step : table_.places[reached[i]]) {
      if (number[step.to] == nowhere) {
        number[step.to] = static_cast<uint16_t>(reached.size());
        reached.push_back(step.to);
      }
      step.to = number[step.to];
    }
  }
  std::vector<std::vector<FormTable::Step>> kept;
  for (const uint16_t place : reached) kept.push_back(std::move(table_.places[place]));
  table_.places = std::move(kept);
  return true;
}

std::shared_ptr<const FormTable> TableMaker::make(uint32_t tokens, std::span<const uint32_t> end_tokens) {
  table_.classes.assign(tokens, 0);
  behaviours_.emplace_back(); // of class 0
  known_.try_emplace(behaviours_[0], uint16_t{0});
  find_uniform();
  count_uniform();
  for (uint32_t token = 0; token < std::min(tokens, vocabulary_.size()); ++token) {
    if (const uint32_t characters = vocabulary_.characters(token))
      table_.classes[token] = class_of(uniform_of_[characters], {});
  }
  std::vector<uint32_t> all, differing;
  for (uint32_t place = 0; place < places_.size(); ++place) {
    all.push_back(place << 16 | place);
    if (!uniform_step_[place]) differing.push_back(all.back());
  }
  if (!walk(vocabulary_.plain_tree(), std::move(differing), true)) return nullptr;
  if (!walk(vocabulary_.others(), std::move(all), false)) return nullptr;
  std::vector<uint32_t> ends(end_tokens.begin(), end_tokens.end());
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  for (const uint32_t token : ends) {
    if (!add_end(token)) return nullptr;
  }
  if (!fill_places() || !keep_reached()) return nullptr;
  return std::make_shared<const FormTable>(std::move(table_));
}

} // namespace

std::optional<uint32_t> FormTable::next(uint32_t place, uint32_t token) const {
  if (token >= classes.size()) return {};
  const std::vector<Step>& steps = places[place];
  const auto found = std::ranges::lower_bound(steps, classes[token], {}, &Step::token_class);
  if (found == steps.end() || found->token_class != classes[token]) return {};
  return found->to;
}

std::shared_ptr<const FormTable> Form::make_table(const FormPlace& from, std::span<const uint32_t> end_tokens,
                                                  uint32_t tokens) {
  using Key = std::pair<std::vector<std::pair<const form::State*, uint32_t>>, bool>;
  ByteAutomaton automaton;
  std::map<Key, uint16_t> known;
  std::deque<FormPlace> found;
  const auto number_of = [&](const FormPlace& place) {
    Key key{{}, place.may_end};
    for (const Thread& thread : place.threads) key.first.emplace_back(thread.at, thread.stack);
    std::ranges::sort(key.first);
    const auto [at, added] = known.try_emplace(std::move(key), static_cast<uint16_t>(found.size()));
    if (added) found.push_back(place);
    return at->second;
  };
  const auto followed = [](const FormPlace& place) {
    size_t sum = 0;
    for (const Thread& thread : place.threads) sum += thread.at->owner->edges_followed();
    return sum;
  };
  number_of(from);
  size_t work = 0;
  FormPlace to, last;
  for (size_t i = 0; i < found.size(); ++i) {
    const FormPlace at = found[i];
    const auto is_large = [&](const Thread& thread) {
      return thread.at->owner->states() > form::most_states / 4 ||
             frames_[thread.stack].depth > most_table_depth;
    };
    if (found.size() > FormTable::most_places || work > most_work || at.threads.size() > most_ways ||
        std::ranges::any_of(at.threads, is_large))
      return nullptr;
    ByteAutomaton::Place& place = automaton.places.emplace_back();
    place.may_end = at.may_end;
    uint16_t last_number = nowhere; // of `last`: bytes beside each other often lead to one place
    size_t positions = 16;
    for (const Thread& thread : at.threads) positions += thread.at->positions.size();
    work += 256 * positions / 16;
    const size_t before = followed(at);
    for (uint32_t byte = 0; byte < 256; ++byte) {
      step(at, static_cast<uint8_t>(byte), to);
      const bool ends = to.threads.empty() && !to.may_end;
      if (!ends && (last_number == nowhere || last.threads != to.threads || last.may_end != to.may_end)) {
        last_number = number_of(to);
        std::swap(last, to);
      }
      place.next[byte] = ends ? nowhere : last_number;
      if (work + followed(at) - before > most_work) return nullptr;
    }
    work += followed(at) - before;
  }
  if (!checked().ok()) return nullptr;
  return TableMaker(automaton, *vocabulary_, work).make(tokens, end_tokens);
}

std::shared_ptr<const FormTable> Form::table(std::string_view begun, std::span<const uint32_t> end_tokens,
                                             uint32_t tokens) {
  const std::lock_guard lock(vocabulary_->lock());
  std::string key;
  for (const size_t each : {source_.size(), begun.size(), size_t{tokens}})
    form::append_number(key, static_cast<uint32_t>(each));
  key += source_;
  key += begun;
  for (const uint32_t token : end_tokens) form::append_number(key, token);
  if (const auto known = vocabulary_->known_table(key)) return *known;
  FormPlace from = start_, next;
  for (const char c : begun) {
    step(from, static_cast<uint8_t>(c), next);
    std::swap(from, next);
  }
  std::shared_ptr<const FormTable> made = make_table(from, end_tokens, tokens);
  vocabulary_->keep_table(std::move(key), made);
  return made;
}

} // namespace pumice
