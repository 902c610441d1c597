#pragma once

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "form/automaton.h"
#include "form/form_table.h"

namespace pumice {

class Tokenizer;

namespace form {
void append_number(std::string& key, uint32_t number);
}

// The tokens of a tokenizer as forms see them: by their bytes. Forms of one vocabulary share the automata of
// rules that they have in common, such as the content of a string in JSON. May be used by several threads.
class FormVocabulary {
public:
  explicit FormVocabulary(const Tokenizer& tokenizer);
  // The bytes of each token; none: it is never a part of a form. Special tokens have bytes of their own,
  // which are no text.
  explicit FormVocabulary(std::vector<std::string> tokens);

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  size_t longest() const { return std::max(plain_tree_.deepest, others_.deepest); } // bytes of a token
  std::string_view bytes(uint32_t token) const {
    return token < size() ? tokens_[token] : std::string_view();
  }

  // For Form, which holds the lock while it uses what follows.
  std::mutex& lock() { return mutex_; }
  // A string in JSON takes nearly every token of whole characters without quotes, backslashes and control
  // characters: plain ones. Those of at most so many characters, as bits; their tree; and that of all others.
  static constexpr uint32_t longest_plain = 32; // longer ones count as others
  const std::vector<uint32_t>& plain(uint32_t most_characters) const { return plain_[most_characters]; }
  const form::TokenTree& plain_tree() const { return plain_tree_; }
  const form::TokenTree& others() const { return others_; }
  // Of a plain token its characters; 0: it is none, or longer.
  uint32_t characters(uint32_t token) const { return characters_[token]; }
  // An automaton without calls: the one that is known already if there is one.
  std::shared_ptr<form::Automaton> shared(form::Nfa nfa);
  // The tables that were made last; of those that cannot be made, null.
  std::optional<std::shared_ptr<const FormTable>> known_table(const std::string& key);
  void keep_table(std::string key, std::shared_ptr<const FormTable> table);
  uint32_t new_number() { return numbers_++; }

private:
  std::vector<std::string> tokens_;
  form::TokenTree plain_tree_, others_;
  std::vector<std::vector<uint32_t>> plain_; // by the most characters
  std::vector<uint8_t> characters_;
  std::mutex mutex_;
  struct Shared {
    std::shared_ptr<form::Automaton> automaton;
    uint64_t used = 0; // when it was asked for last, in calls of shared()
  };
  std::map<std::string, Shared> automata_;
  uint64_t uses_ = 0;
  std::list<std::pair<std::string, std::shared_ptr<const FormTable>>> tables_; // the last one first
  uint32_t numbers_ = 0;
};

// The vocabulary of a tokenizer for forms, made when it is first asked for: that takes a tenth of a second
// for 128 thousand tokens. May be used by several threads.
class LazyFormVocabulary {
public:
  explicit LazyFormVocabulary(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)) {}
  std::shared_ptr<FormVocabulary> get();

private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::once_flag once_;
  std::shared_ptr<FormVocabulary> made_;
};

} // namespace pumice
