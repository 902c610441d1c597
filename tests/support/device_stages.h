#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/embedding.h"

// Models that are cut by layers over several devices, as a program loads them.

using Layers = std::vector<uint32_t>; // of each stage

inline std::vector<pumice_stage> stages_on(const std::vector<pumice_device*>& devices, const Layers& layers) {
  std::vector<pumice_stage> stages;
  for (size_t i = 0; i < devices.size(); ++i) stages.push_back({devices[i], layers[i], 0});
  return stages;
}

inline pumice_status load_stages(const std::vector<pumice_stage>& stages, pumice_device* device,
                                 const std::string& path, pumice_model** model, pumice_error* error) {
  pumice_load_options options = {sizeof options};
  options.stages = stages.data();
  options.stage_count = static_cast<uint32_t>(stages.size());
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  return pumice_model_load(device, &source, &options, model, error);
}

// A failure fails the test.
inline ModelHandle load_stages(const std::vector<pumice_device*>& devices, const Layers& layers,
                               const std::string& path = stories) {
  pumice_model* model = nullptr;
  pumice_error error;
  require_ok(load_stages(stages_on(devices, layers), devices.back(), path, &model, &error), error);
  return ModelHandle(model);
}

inline pumice_session_options small_options() {
  pumice_session_options options = {sizeof options};
  options.context = 128;
  options.chunk = 8;
  return options;
}

inline pumice_sampling warm() {
  pumice_sampling sampling = {sizeof sampling};
  sampling.temperature = 0.8f;
  sampling.repeat_penalty = 1.2f;
  sampling.seed = 5;
  return sampling;
}
