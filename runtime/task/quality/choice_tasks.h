#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "step/continuation_scorer.h"
#include "text/tokenizer.h"

// Questions with answers to choose from: the model chooses the one that it finds most probable for each
// token. The files, the answers that count and the order of the tasks are those of llama.cpp.
namespace pumice {

enum class ChoiceKind {
  hellaswag,       // how a scene goes on, of four
  winogrande,      // which of two names a sentence means
  multiple_choice, // any questions, in a binary file
};

struct ChoiceTask {
  std::string source; // for messages: "FILE: task 3"
  // The question with each of the answers.
  std::vector<std::string> texts;
  // Of each of them: its beginning that is not scored, if both have tokens enough behind it; empty: what all
  // texts have in common.
  std::vector<std::string> heads;
  std::vector<bool> right; // which answers are
};

// The tasks of a file: `count` of them that llama.cpp would choose, in its order; 0: all, of HellaSwag in a
// random order. Errors: a file of another form.
Result<std::vector<ChoiceTask>> read_choice_tasks(ChoiceKind kind, std::span<const std::byte> bytes,
                                                  const std::string& source, size_t count);

struct Choice {
  size_t chosen = 0;
  bool right = false;
  std::vector<double> scores; // mean log-probability of the tokens of each answer that count
};
Result<Choice> choose(ContinuationScorer& scorer, const Tokenizer& tokenizer, const ChoiceTask& task);

// A share of so many, with the interval in which it lies with 95 % probability (Wilson 1927).
struct Share {
  double value = 0, low = 0, high = 1;
};
Share share_of(size_t part, size_t all);

} // namespace pumice
