#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "task/writing.h"

// Texts that are translated sentence by sentence, and paragraphs whose lines end where the page did.
namespace pumice {

bool is_blank(std::string_view text); // nothing but white space

// Lets a paragraph go on with its next line, without the white space between them.
void append_line(std::string& paragraph, std::string_view line);

struct Sentence {
  std::string text;
  std::string after; // the white space between it and the next one
  EncoderInput input = {};
  size_t length = 0;                    // in tokens
  bool cut = false;                     // the model cannot read so many, and the end is left out of the input
  std::vector<Hypothesis> written = {}; // empty: not answered yet
  bool lacks_terms = false;             // what was written lacks a term of the glossary
};

// A text, or a paragraph of several sentences. A blank one has no sentences, and is answered by a blank line.
struct Source {
  std::string text;
  std::vector<Sentence> sentences = {};

  bool blank() const { return sentences.empty(); }
  bool answered() const;
  bool cut() const;         // the end of a sentence was left out
  bool lacks_terms() const; // the translation of one does
};

// The sentences of a text, or one that is the whole text; none of a blank one. They have no input yet.
std::vector<Sentence> sentences_of(const std::string& text, bool split);

// The translations of a text, best first: the n-th is made of its sentences' n-th best. Its score is the sum
// of theirs.
std::vector<WrittenText> joined(const Source& source, const GenerationConfig& config,
                                const Tokenizer& tokenizer);

} // namespace pumice
