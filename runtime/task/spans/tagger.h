#pragma once

#include <memory>
#include <string>
#include <vector>

#include "task/input_runner.h"
#include "task/spans/text_span.h"
#include "task/spans/token_windows.h"

namespace pumice {

// How a model that labels each token reads texts, before its weights are on a device.
struct TaggerPlan {
  TaskModel model;
  std::vector<std::string> labels;
  RunOptions run;

  // `loaded`: the tokenizer, if it is there already. Errors: a model without such a head, or a tokenizer.
  static Result<TaggerPlan> of(const ModelFile& file, const RunOptions& run,
                               std::shared_ptr<const Tokenizer> loaded = nullptr);
};

// Finds the parts of texts that have a label: names, places ... A text may have any length: it is read in
// windows that overlap, and each token has the label of the window in whose middle it stands.
class Tagger {
public:
  // `model`: loaded with plan.model.load().
  static Result<std::unique_ptr<Tagger>> create(std::shared_ptr<const Model> model, TaggerPlan plan,
                                                const Making& making = {});

  // A text's windows.
  Result<std::vector<EncoderInput>> read(const std::string& text, const std::string& name);
  // What the text's rows say of it. Neighbouring tokens of one label are one part, whether it is written "X"
  // or "I-X"; "B-X" begins another part. Its score is their mean probability. Label "O" is none.
  std::vector<TextSpan> spans(const std::string& text, const std::vector<float>& rows) const;

  const TaggerPlan& plan() const { return plan_; }
  InputRunner& runner() { return *runner_; }

private:
  explicit Tagger(TaggerPlan plan) : plan_(std::move(plan)) {}
  std::vector<TokenWindow> windows(size_t tokens) const;

  const TaggerPlan plan_;
  std::unique_ptr<InputRunner> runner_;
};

} // namespace pumice
