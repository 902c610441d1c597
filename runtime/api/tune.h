#pragma once

#include "api/handles.h"
#include "task/load_model.h"
#include "tuning/tune_model.h"

namespace pumice::api {

// The model with what is known of its device now, for something that is created from it.
std::shared_ptr<const Model> current_model(const std::shared_ptr<const Model>& model);
inline std::shared_ptr<const Model> current_model(const pumice_model& model) {
  return current_model(model.model);
}

// The tuning results of the options for this device. What cannot be used is told to the log.
TuningResults shipped_results(const pumice_device_options& options, const Capabilities& device,
                              const Log& log);

// What loading a model that measures for so many seconds does with kernels that are new. 0: it only checks
// them. What it finds goes to the log, which has to outlive it; a failure to measure does too, unless the
// device is lost. `cancelled` if `go_on` returns false, after what was measured has been kept.
KernelTrials load_trials(double seconds, size_t threads, const Log& log, std::function<bool()> go_on);

// The seconds to measure for while a model is loaded, for pumice_load_options.tune_seconds. Nothing: kernels
// are not checked either.
Result<std::optional<double>> load_tune_seconds(float seconds, const Pipelines& pipelines);

// Checks a time limit of options. 0: none.
Result<double> read_seconds(float seconds, const char* name);

} // namespace pumice::api
