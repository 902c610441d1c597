#pragma once

#include <cstdint>
#include <span>
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

// A batch of texts that continue these prompts, of which all but two wait.
inline BatchHandle two_at_a_time(pumice_model* model, std::span<const char* const> prompts,
                                 const pumice_sampling& sampling) {
  pumice_batch_options options = {sizeof options};
  options.texts = 2;
  options.context = 64;
  options.chunk = 8;
  BatchHandle batch = make_batch(model, options);
  pumice_error error;
  for (const char* each : prompts) {
    pumice_request request = {sizeof request};
    request.text = each;
    request.max_tokens = 12;
    request.sampling = &sampling;
    uint32_t text = 0;
    require_ok(pumice_batch_add(batch.get(), &request, &text, &error), error);
  }
  return batch;
}
