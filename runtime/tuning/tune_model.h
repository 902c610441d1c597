#pragma once

#include <memory>

#include "model/model.h"
#include "tuning/tuner.h"

namespace pumice {

// Measures the kernel variants that a model's steps can choose from on its device: single tokens and chunks
// of a prompt, an encoder's inputs, and where everything is asked for, also steps of several sequences. Its
// memory is that of a small session while it runs.
Result<Tuning> tune_model(const std::shared_ptr<const Model>& model, const TuneOptions& options);

} // namespace pumice
