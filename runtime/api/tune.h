#pragma once

#include "api/handles.h"
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

// Measures a model that is being loaded, for LoadOptions::tune. A failure is told to the log, unless the
// device is lost; `cancelled` if `progress` returns false, after what was measured has been kept.
Result<DeviceProfile> tune_loaded(const std::shared_ptr<const Model>& model, double seconds, const Log& log,
                                  const std::function<bool()>& progress);

// The short check of a model that is being loaded (tuning/short_check.h), in at most so many seconds.
// Warnings go to the log. Nothing is checked without a folder to keep that in. Returns the model as it is to
// go on with. Errors: a kernel is wrong that nothing can replace; the device is lost; `cancelled` if
// `progress` returns false.
Result<std::shared_ptr<const Model>> check_loaded(const std::shared_ptr<const Model>& model, double seconds,
                                                  const Log& log, const std::function<bool()>& progress);

// The seconds to measure for while a model is loaded, for pumice_load_options.tune_seconds. 0: not at all.
Result<double> load_tune_seconds(float given, const Pipelines& pipelines);

// Checks a time limit of options. 0: none.
Result<double> read_seconds(float seconds, const char* name);

} // namespace pumice::api
