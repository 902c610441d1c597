#pragma once

#include <functional>
#include <memory>
#include <string>

#include "model/model.h"
#include "tuning/tuner.h"

namespace pumice {

// Measures the kernel variants for a model's steps on its device: steps of single tokens, of prompts and of
// encoder inputs, and with TuneOptions::everything also steps of several sequences. While it runs, it takes
// the memory of a small session.
Result<Tuning> tune_model(const std::shared_ptr<const Model>& model, const TuneOptions& options);

// Whether tune_model() would measure something without `everything`. The weights need not be on the device.
Result<bool> needs_tuning(const Model& model, const TuneOptions& options);

// Adds what was measured to the device's tuning results, for everything that is made with them from then on.
// Calls `note` for each variant that is blocked from then on.
void keep_tuning(const Tuning& tuning, Pipelines& pipelines,
                 const std::function<void(const std::string&)>& note);

} // namespace pumice
