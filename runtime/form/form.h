#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "form/form_table.h"
#include "form/form_vocabulary.h"
#include "form/grammar.h"

namespace pumice {

// The form that a text must have, at most one of these.
struct FormSource {
  std::vector<std::string> choices = {}; // one of them
  std::string regex = {};       // all of the text matches it; the dialect is ECMAScript's with limits
  std::string json_schema = {}; // draft 2020-12; README.md says which keywords
  std::string grammar = {};     // GBNF, as llama.cpp has it, or Lark, as llguidance has it
  bool operator==(const FormSource&) const = default;
};
bool has_form(const FormSource& source);
// Of one that has a form. Errors name what is wrong in the source, and where.
Result<form::Grammar> parse_form(const FormSource& source);
// Whether a text looks like a grammar, and not like the name of a file.
bool is_grammar(std::string_view text);

class Form;

// A text's form.
struct TextForm {
  std::shared_ptr<Form> form = {}; // none: any text
  std::string begun = {};          // what the prompt has of the text, as spelled_bytes() has it
  bool lenient = false;            // where it cannot be kept to, any text may follow
};

// How far a text has come in its form. Cheap to copy.
struct FormPlace {
  struct Thread {
    const form::State* at = nullptr;
    uint32_t stack = 0; // of the rules that called this one; 0: none
    bool operator==(const Thread&) const = default;
  };
  std::vector<Thread> threads; // ways to go on
  bool may_end = false;        // the text may end here
};

// Which tokens may follow a text that has a form. May be used by several threads.
class Form {
public:
  // Errors name what is wrong in the source, and where.
  static Result<std::shared_ptr<Form>> create(const FormSource& source,
                                              std::shared_ptr<FormVocabulary> vocabulary);
  static Result<std::shared_ptr<Form>> create(const form::Grammar& grammar,
                                              std::shared_ptr<FormVocabulary> vocabulary);

  const FormPlace& start() const { return start_; }
  // Sets the bit of each token that may follow, and clears all others; those of `end_tokens` may if the text
  // may end, and the special ones among them only then. Bits beyond the vocabulary's are cleared. Fails if
  // the form is too large; at least one bit is set otherwise, unless the vocabulary lacks what must follow:
  // the caller must look.
  Status mask(const FormPlace& place, std::span<const uint32_t> end_tokens, std::span<uint32_t> bits);
  // The token that is alone in the mask of so many tokens, if the next byte is certain or the text has to
  // end; otherwise nothing, without a look at the tokens.
  Result<std::optional<uint32_t>> only_token(const FormPlace& place, std::span<const uint32_t> end_tokens,
                                             uint32_t tokens);
  // Goes on by a token, or by bytes. False: they may not follow, and the place is of no use any more.
  Result<bool> accept(FormPlace& place, uint32_t token);
  Result<bool> accept(FormPlace& place, std::string_view bytes);
  // The bytes that are certain to follow, at most so many.
  Result<std::string> forced(FormPlace place, size_t most = 256);
  // The form as a table over so many tokens, for a text that has begun like this and may end with these
  // tokens; null: it would be too large. Forms of one source share it.
  std::shared_ptr<const FormTable> table(std::string_view begun, std::span<const uint32_t> end_tokens,
                                         uint32_t tokens);

private:
  using Thread = FormPlace::Thread;
  struct Frame {
    const form::State* back = nullptr; // where the caller goes on
    uint32_t below = 0, depth = 0;
  };
  struct FrameHash {
    size_t operator()(const std::pair<const form::State*, uint32_t>& frame) const {
      return std::hash<const void*>()(frame.first) * 31 + frame.second * 0x9E3779B97F4A7C15U;
    }
  };

  explicit Form(std::shared_ptr<FormVocabulary> vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Status make(const form::Grammar& grammar);
  Status checked() const;
  void add(FormPlace& place, Thread thread);
  void close(FormPlace& place);
  uint32_t push(const form::State* back, uint32_t below);
  void step(const FormPlace& from, uint8_t byte, FormPlace& to);
  void walk(const form::TokenTree& tree, const FormPlace& from, std::span<uint32_t> bits,
            std::vector<std::pair<const form::TokenTree*, uint32_t>>* ends);
  bool is_plain_step(const form::State* at, const form::State*& to);
  uint32_t plain_reach(const form::State* at);
  const form::LocalMask& local_mask(const form::State* at);
  std::shared_ptr<const FormTable> make_table(const FormPlace& from, std::span<const uint32_t> end_tokens,
                                              uint32_t tokens);

  std::shared_ptr<FormVocabulary> vocabulary_;
  std::string source_;                                     // the same for forms that are the same
  std::vector<std::shared_ptr<form::Automaton>> automata_; // of each rule
  std::vector<Frame> frames_{1};
  std::unordered_map<std::pair<const form::State*, uint32_t>, uint32_t, FrameHash> known_frames_;
  FormPlace start_;
  bool too_large_ = false;
};

} // namespace pumice
