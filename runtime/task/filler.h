#pragma once

#include <memory>
#include <string>
#include <vector>

#include "task/input_runner.h"

namespace pumice {

struct FillerOptions {
  uint32_t top = 5; // words for each mask
  RunOptions run;
};

// How a masked language model reads texts with gaps, before its weights are on a device.
struct FillerPlan {
  TaskModel model;
  uint32_t mask = 0;     // the token of a gap
  std::string mask_name; // how a text spells it: "[MASK]"
  FillerOptions options;

  // `loaded`: the tokenizer, if it is there already. Errors: a model without the head, a vocabulary without
  // a token for gaps.
  static Result<FillerPlan> of(const ModelFile& file, const FillerOptions& options,
                               std::shared_ptr<const Tokenizer> loaded = nullptr);
};

// Finds the most probable words for the gaps of texts, each gap by itself.
class Filler {
public:
  // `model`: loaded with plan.model.load().
  static Result<std::unique_ptr<Filler>> create(std::shared_ptr<const Model> model, FillerPlan plan,
                                                const Making& making = {});

  // A text with one gap at least, spelled as mask_name, "[MASK]" or "<mask>". Errors: there is none, more
  // than a step has room for.
  Result<EncoderInput> read(const std::string& text, const std::string& name);
  Result<EncoderInput> read(std::vector<uint32_t> ids, const std::string& name);

  struct Fill {
    uint32_t token = 0;
    float probability = 0;
    std::string word; // without spaces around it
  };
  // The most probable words for each gap, best first, of the rows that the runner gives.
  std::vector<std::vector<Fill>> fills(const std::vector<float>& rows) const;
  // The text with a word in the place of its gap number `gap`.
  std::string filled(const std::string& text, size_t gap, const Fill& fill) const;

  const FillerPlan& plan() const { return plan_; }
  InputRunner& runner() { return *runner_; }

private:
  explicit Filler(FillerPlan plan) : plan_(std::move(plan)) {}
  std::string with_own_marks(std::string text) const;
  Result<EncoderInput> with_outputs(EncoderInput input, const std::string& name) const;

  const FillerPlan plan_;
  std::unique_ptr<InputRunner> runner_;
};

} // namespace pumice
