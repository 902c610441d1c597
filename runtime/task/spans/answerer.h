#pragma once

#include <memory>
#include <string>
#include <vector>

#include "task/input_runner.h"
#include "task/spans/text_span.h"
#include "task/spans/token_windows.h"

namespace pumice {

struct AnswererOptions {
  uint32_t top = 1;               // answers
  uint32_t max_answer_tokens = 0; // 0: 15
  RunOptions run;                 // of max_tokens 0: 384, as such models are trained with
};

// How a model that finds answers in a text reads it, before its weights are on a device.
struct AnswererPlan {
  TaskModel model;
  AnswererOptions options;

  // `loaded`: the tokenizer, if it is there already. Errors: a model without such a head, or a tokenizer.
  static Result<AnswererPlan> of(const ModelFile& file, const AnswererOptions& options,
                                 std::shared_ptr<const Tokenizer> loaded = nullptr);
};

// Finds the parts of a text that answer a question (extractive question answering). The text may have any
// length: it is read in windows that overlap, each after the question.
class Answerer {
public:
  // `model`: loaded with plan.model.load().
  static Result<std::unique_ptr<Answerer>> create(std::shared_ptr<const Model> model, AnswererPlan plan,
                                                  const Making& making = {});

  // The text's windows. An error if the question leaves no room for them.
  Result<std::vector<EncoderInput>> read(const std::string& question, const std::string& text,
                                         const std::string& name);
  // The best answers first, made of whole words; of the rows of all windows. A score is the probability of
  // the first token times that of the last, of all tokens of the window.
  std::vector<TextSpan> answers(const std::string& question, const std::string& text,
                                const std::vector<float>& rows);

  const AnswererPlan& plan() const { return plan_; }
  InputRunner& runner() { return *runner_; }

private:
  explicit Answerer(AnswererPlan plan) : plan_(std::move(plan)) {}
  // `room`: for tokens of the text.
  static std::vector<TokenWindow> windows(size_t tokens, size_t room);
  // The tokens of a step that are left for the text; at most 0 if there are none.
  int64_t room(std::span<const uint32_t> question) const;
  const std::vector<Tokenizer::PlacedToken>& tokens_of(const std::string& text);

  const AnswererPlan plan_;
  std::unique_ptr<InputRunner> runner_;
  std::string text_; // the last one, with its tokens
  std::vector<Tokenizer::PlacedToken> tokens_;
};

} // namespace pumice
