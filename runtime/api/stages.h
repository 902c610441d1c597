#pragma once

#include <vector>

#include "api/handles.h"

namespace pumice::api {

// The stages that the application asks for, with their devices, which they keep alive.
struct StageList {
  std::vector<pumice_device> devices; // share what the application's have
  std::vector<uint32_t> layers;       // all 0: about as many in each
};

// None where the options have none. `device`: that the model is loaded on.
Result<StageList> read_stages(const pumice_load_options& options, const pumice_device& device);

// A model's stages as of Model::plan(), in their order.
Result<std::vector<std::shared_ptr<const Model>>>
plan_stages(const StageList& stages, const pumice_source* source, const LoadOptions& options);
// Loads a model in stages.
Result<std::shared_ptr<const Model>> load_stages(const StageList& stages, const pumice_source* source,
                                                 const LoadOptions& options, const Progress& progress);

// An error if a model is in stages, for what `user` cannot do.
Status check_one_device(const Model& model, const char* user);

} // namespace pumice::api
