#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loading/open_device.h"
#include "options/options.h"
#include "output/json_output.h"
#include "task/quality/choice_tasks.h"
#include "task/quality/perplexity.h"

// The parts of `pumice perplexity`.
namespace pumice::command {

struct PerplexityOptions {
  std::string model;
  std::string text;
  uint32_t windows = 0;   // 0: all windows of the text
  uint32_t stride = 0;    // 0: windows side by side
  std::string base;       // the file of the base model's predictions
  std::string importance; // the file of an importance matrix that is written
  bool divergence = false;
  bool hellaswag = false, winogrande = false, multiple_choice = false; // at most one of them
  std::optional<uint32_t> tasks;
  bool json = false;
  std::vector<std::string> adapters; // as --lora names them
  DeviceOptions device;
  SizeOptions size;

  std::optional<ChoiceKind> choices() const {
    if (hellaswag) return ChoiceKind::hellaswag;
    if (winogrande) return ChoiceKind::winogrande;
    return multiple_choice ? std::optional(ChoiceKind::multiple_choice) : std::nullopt;
  }
};

inline constexpr uint32_t default_window = 512; // tokens

// A model that is to be measured, which is not loaded yet, and the size of its windows.
struct MeasuredFile {
  OpenedModel opened;
  std::shared_ptr<const Tokenizer> tokenizer;
  ModelShape shape;
  SessionSize size;
  AdapterChoice adapter = {}; // of --lora
  // The token that the tokenizer begins a text with, if it does: each window begins with it.
  std::optional<uint32_t> begin() const;
};

// The model's divergence from the predictions in --kl-divergence-base.
Status measure_divergence(const PerplexityOptions& options, MeasuredFile file);
// An importance matrix of what the text's windows give, in place of a measure.
Status write_importance(const PerplexityOptions& options, MeasuredFile file, const TextWindows& windows);
// How many tasks the model solves.
Status measure_choices(const PerplexityOptions& options, MeasuredFile file);

} // namespace pumice::command
