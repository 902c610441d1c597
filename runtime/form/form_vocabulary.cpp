#include "form/form_vocabulary.h"

#include <algorithm>

#include "text/tokenizer.h"
#include "text/unicode/unicode.h"

namespace pumice {

void form::append_number(std::string& key, uint32_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof number);
}

namespace {

using form::append_number;

// Most tables that are kept.
constexpr size_t most_tables = 8;

// Most automata that are kept after the last form that uses them.
constexpr size_t most_automata = 256;
// Most bytes of their states.
constexpr size_t most_automaton_bytes = 256 << 20;
// Longer tokens are never a part of a form.
constexpr size_t most_token_bytes = 1024;

// Its characters, if it is plain as FormVocabulary::plain() has it, otherwise 0.
uint32_t plain_characters(std::string_view bytes) {
  if (!text::is_valid_utf8(bytes)) return 0;
  uint32_t count = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == '"' || byte == '\\') return 0;
    if ((byte & 0xC0) != 0x80) ++count;
  }
  return count;
}

// The same for automata that are the same.
std::string key_of(const form::Nfa& nfa) {
  std::string key;
  for (const form::Nfa::Term& term : nfa.terms) {
    for (const uint32_t number : {term.start, term.end, uint32_t{term.negated}, uint32_t{term.begins}})
      append_number(key, number);
  }
  for (const uint32_t number : nfa.first_edge) append_number(key, number);
  for (const form::Nfa::Edge& edge : nfa.edges) {
    key += {static_cast<char>(edge.kind), static_cast<char>(edge.first), static_cast<char>(edge.last)};
    append_number(key, edge.to);
  }
  for (const uint32_t loop : nfa.loop) append_number(key, loop);
  for (const form::Nfa::Loop& loop : nfa.loops) {
    append_number(key, loop.least);
    append_number(key, loop.most);
  }
  return key;
}

std::vector<std::string> bytes_of(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens = tokenizer.bytes_within();
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (tokenizer.is_special(id)) tokens[id] = form::special_bytes(id);
  }
  return tokens;
}

} // namespace

FormVocabulary::FormVocabulary(const Tokenizer& tokenizer) : FormVocabulary(bytes_of(tokenizer)) {}

FormVocabulary::FormVocabulary(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, uint32_t>> plain, others;
  plain_.assign(longest_plain + 1, std::vector<uint32_t>((tokens_.size() + 31) / 32));
  characters_.resize(tokens_.size());
  for (uint32_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].size() > most_token_bytes) tokens_[id].clear();
    if (tokens_[id].empty()) continue;
    const uint32_t characters = plain_characters(tokens_[id]);
    if (characters == 0 || characters > longest_plain) {
      others.emplace_back(tokens_[id], id);
    } else {
      plain.emplace_back(tokens_[id], id);
      plain_[characters][id / 32] |= 1U << id % 32;
      characters_[id] = static_cast<uint8_t>(characters);
    }
  }
  for (uint32_t n = 1; n <= longest_plain; ++n) {
    for (size_t i = 0; i < plain_[n].size(); ++i) plain_[n][i] |= plain_[n - 1][i];
  }
  plain_tree_ = form::TokenTree(std::move(plain));
  others_ = form::TokenTree(std::move(others));
}

std::optional<std::shared_ptr<const FormTable>> FormVocabulary::known_table(const std::string& key) {
  const auto known = std::ranges::find(tables_, key, [](const auto& each) { return each.first; });
  if (known == tables_.end()) return {};
  tables_.splice(tables_.begin(), tables_, known);
  return known->second;
}

void FormVocabulary::keep_table(std::string key, std::shared_ptr<const FormTable> table) {
  tables_.emplace_front(std::move(key), std::move(table));
  if (tables_.size() > most_tables) tables_.pop_back();
}

std::shared_ptr<FormVocabulary> LazyFormVocabulary::get() {
  std::call_once(once_, [this] { made_ = std::make_shared<FormVocabulary>(*tokenizer_); });
  return made_;
}

std::shared_ptr<form::Automaton> FormVocabulary::shared(form::Nfa nfa) {
  ++uses_;
  size_t bytes = 0;
  for (const auto& [key, each] : automata_) bytes += each.automaton->state_bytes();
  const bool large = bytes > most_automaton_bytes;
  if (automata_.size() >= most_automata || large) { // those that were used last stay, but for large ones
    std::erase_if(automata_, [&](const auto& each) {
      const bool recent = each.second.used + most_automata / 2 >= uses_;
      return each.second.automaton.use_count() == 1 && (large || !recent);
    });
  }
  std::string key = key_of(nfa);
  const auto known = automata_.find(key);
  if (known != automata_.end() && !known->second.automaton->too_large()) {
    known->second.used = uses_;
    return known->second.automaton;
  }
  auto automaton = std::make_shared<form::Automaton>(std::move(nfa));
  if (automata_.size() < most_automata) automata_[std::move(key)] = {automaton, uses_};
  return automaton;
}

} // namespace pumice
