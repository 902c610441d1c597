#pragma once

#include <string>
#include <vector>

#include "terminal/writing.h"

// Texts that are translated sentence by sentence.
namespace pumice::command {

struct Sentence {
  std::string text;
  std::string after; // the white space between it and the next one
  EncoderInput input;
  std::vector<Hypothesis> written = {}; // empty: not answered yet
};

// A line of the input: a text, or a paragraph of several sentences. A blank one has no sentences, and is
// answered by a blank line.
struct Source {
  std::string text;
  uint64_t number = 0; // of the line
  bool cut = false;    // the end of a sentence was left out
  std::vector<Sentence> sentences = {};

  bool blank() const { return sentences.empty(); }
  bool answered() const;
};

// The sentences of a text, or one that is the whole text; none of a blank one. They have no input yet.
std::vector<Sentence> sentences_of(const std::string& text, bool split);

// The translations of a text, best first: the n-th is made of its sentences' n-th best. Its score is the sum
// of theirs.
std::vector<WrittenText> joined(const Source& source, const GenerationConfig& config,
                                const Tokenizer& tokenizer);

} // namespace pumice::command
