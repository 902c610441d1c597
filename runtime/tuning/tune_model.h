#pragma once

#include <memory>

#include "model/model.h"
#include "tuning/tuner.h"

namespace pumice {

// Measures the kernel variants for a model's steps on its device: steps of single tokens, of prompts and of
// encoder inputs, and with TuneOptions::everything also steps of several sequences. While it runs, it takes
// the memory of a small session.
Result<Tuning> tune_model(const std::shared_ptr<const Model>& model, const TuneOptions& options);

} // namespace pumice
