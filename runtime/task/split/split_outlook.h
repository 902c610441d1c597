#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "task/split/split_device.h"

namespace pumice {

// The runners of the sessions, or of the encoder-decoder, that so many sequences are made for.
Result<std::vector<SessionRunners>> sessions_of(const Model& model, const StageUse& use);

// What the cuts are chosen for.
struct SplitWish {
  std::string model; // its path, for messages
  ModelShape shape;
  SplitGoal goal = SplitGoal::decode;
  uint32_t sequences = 1;
  std::vector<uint32_t> layers;  // of each device; empty: the best
  std::optional<SplitLink> link; // none: all devices are of one process
  UseOfStages use;
};

// What is to be expected of one way to run the model.
struct SplitOutlook {
  std::string name;
  SplitPlan plan;
  double round = 0;  // seconds of a token of each sequence
  double prompt = 0; // seconds of the prompt; of an input, where inputs follow each other
  bool fits = true;
};

// All ways, and what they have in common.
struct SplitOutlooks {
  std::vector<SplitOutlook> ways; // the cuts first, then each device alone
  size_t fastest = 0;
  uint32_t sequences = 1;
  uint32_t prompt = 0; // tokens of the prompt or the input
  bool encoder = false;
};

// Measures small stages on all devices, the first stage's first, and says what each way would take. Errors:
// fewer or more numbers of layers than devices, cuts where the model has none, cuts that fit no memory.
Result<SplitOutlooks> split_outlooks(std::span<const std::unique_ptr<SplitDevice>> devices,
                                     const SplitWish& wish, const Progress& progress);

} // namespace pumice
