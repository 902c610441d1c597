#pragma once

#include "api/stages.h"

namespace pumice::api {

// Loads a model and its vocabulary by the calling thread. `progress` is asked as LoadOptions has it.
// `stages`: of the options.
Result<std::unique_ptr<pumice_model>> load_model(const pumice_device& device, const pumice_source* source,
                                                 const pumice_load_options& options, const StageList& stages,
                                                 const Progress& progress);

} // namespace pumice::api
