#include <algorithm>
#include <map>

#include "api/call.h"
#include "api/handles.h"
#include "api/stages.h"
#include "api/vision.h"
#include "recording/time_slicer.h"
#include "step/cache/memory_needs.h"

using namespace pumice;
using namespace pumice::api;

namespace {

// What the encoder of pictures takes, and what a session that looks at so many of them in a step does.
Result<MemoryNeeds> vision_needs(const Model& tower, uint32_t pictures, uint64_t slices) {
  SessionRunners runners;
  if (pictures > 0) {
    EncoderOptions options = Vision::encoder_options(tower.shape(), pictures);
    PUMICE_TRY(RunnerOptions runner, Encoder::runner_options(tower, std::move(options)));
    runners.push_back(std::move(runner));
  }
  PUMICE_TRY(MemoryNeeds needs, memory_needs(tower, runners, pictures > 0 ? slices : 0));
  if (const std::shared_ptr<const Model> tiles = tower.for_tiles(); tiles && pictures > 0) {
    PUMICE_TRY(RunnerOptions runner,
               Encoder::runner_options(*tiles, Vision::encoder_options(tiles->shape(), pictures)));
    runners.clear();
    runners.push_back(std::move(runner));
    PUMICE_TRY(const MemoryNeeds more, memory_needs(*tiles, runners, slices));
    needs.cache += more.cache;
    needs.scratch += more.scratch;
    needs.state += more.state;
  }
  return needs;
}

// Both are loaded one after the other.
void add(const MemoryNeeds& more, MemoryNeeds& needs) {
  needs.weights += more.weights;
  needs.host += more.host;
  needs.cache += more.cache;
  needs.scratch += more.scratch;
  needs.state += more.state;
  needs.loading = std::max(needs.loading, more.loading);
}

// What each device of a model in stages takes, with a session or batch of it.
class StageNeeds {
public:
  StageNeeds(std::vector<std::shared_ptr<const Model>> stages, std::vector<std::string> readable)
      : stages_(std::move(stages)), readable_(std::move(readable)) {}

  Result<std::vector<MemoryNeeds>> of(const SessionSize& size) const {
    std::map<const Device*, MemoryNeeds> needs;
    for (const std::shared_ptr<const Model>& stage : stages_) {
      const Device& device = *stage->context().device;
      PUMICE_TRY(SessionRunners runners, usual_runners(*stage, size, readable_));
      PUMICE_TRY(const uint64_t slices, TimeSlicer::memory_needed(device));
      PUMICE_TRY(const MemoryNeeds more,
                 memory_needs(*stage, stage_runners(*stage, std::move(runners)), slices));
      add(more, needs[&device]);
      needs[&device].available = more.available;
    }
    std::vector<MemoryNeeds> all;
    for (const auto& [device, of_device] : needs) all.push_back(of_device);
    return all;
  }

  Result<uint32_t> longest_context(SessionSize size) const {
    return pumice::longest_context(stages_.back()->shape().context, [&](uint32_t context) -> Result<bool> {
      size.context = context;
      PUMICE_TRY(const std::vector<MemoryNeeds> needs, of(size));
      return std::ranges::all_of(needs, &MemoryNeeds::fits);
    });
  }

private:
  std::vector<std::shared_ptr<const Model>> stages_;
  std::vector<std::string> readable_;
};

// Of all devices together; each must have room for its part.
Result<pumice_memory_estimate> estimate_of(const StageNeeds& stages, const SessionSize& size) {
  PUMICE_TRY(const std::vector<MemoryNeeds> needs, stages.of(size));
  pumice_memory_estimate estimate = {sizeof estimate};
  estimate.fits = true;
  for (const MemoryNeeds& each : needs) {
    estimate.weights += each.weights;
    estimate.host += each.host;
    estimate.cache += each.cache;
    estimate.scratch += each.scratch + each.state;
    estimate.loading += each.loading - std::min(each.loading, each.session());
    estimate.peak += each.peak();
    estimate.fits = estimate.fits && each.fits();
  }
  PUMICE_TRY(estimate.longest_context, stages.longest_context(size));
  return estimate;
}

// The size that the estimate is for, with defaults in place of zeros.
void name_size(const Model& model, const SessionSize& asked, pumice_memory_estimate& estimate) {
  const SessionSize size = model.lay_out_memory(asked).size;
  estimate.context = size.context;
  estimate.chunk = size.chunk;
  estimate.cache_type = to_cache_type(size.cache);
}

// Estimates a model and one session or batch of it, whose options `read_options` gives for the model's shape.
// `session`: null for a batch.
template <class ReadOptions>
Status estimate_memory(pumice_device* device, const pumice_source* source, const pumice_load_options* load,
                       const ReadOptions& read_options, const pumice_session_options* session,
                       pumice_memory_estimate* estimate) {
  PUMICE_REQUIRE_LIVE(device);
  PUMICE_REQUIRE(estimate);
  PUMICE_TRY(const pumice_load_options load_given, read(load, "load"));
  PUMICE_TRY(const LoadOptions load_options, read_load_options(load_given));
  PUMICE_TRY(const StageList stage_list, read_stages(load_given, *device));
  const ModelSource all = {source, load_given.mmproj};
  PUMICE_TRY(ModelFile file, all.open(load_options.tower, {}, true));
  PUMICE_TRY(const std::shared_ptr<const Model> model,
             Model::plan(std::move(file), device->context, load_options));
  PUMICE_TRY(SessionOptions options, read_options(model->shape()));
  std::vector<std::string> readable;
  if (options.logits.buffer) readable = {"logits"};
  if (!stage_list.devices.empty()) {
    PUMICE_TRY(std::vector<std::shared_ptr<const Model>> stages,
               plan_stages(stage_list, source, load_options));
    if (session && session->fit) return no_fit_in_stages();
    const std::shared_ptr<const Model> last = stages.back();
    PUMICE_TRY(pumice_memory_estimate result,
               estimate_of(StageNeeds(std::move(stages), readable), options.size));
    name_size(*last, options.size, result);
    return write(result, estimate, "estimate");
  }
  PUMICE_TRY(const uint64_t slices, TimeSlicer::memory_needed(*model->context().device));
  MemoryNeeds vision;
  if (load_given.vision) {
    PUMICE_TRY(const std::shared_ptr<const Model> tower, plan_tower(all, load_options, device->context));
    PUMICE_TRY(vision, vision_needs(*tower, session ? session->pictures : 0, slices));
  }
  const uint64_t beside = slices + vision.weights + vision.session();
  if (session) {
    PUMICE_TRY(options.size, fitted_size(*session, *model, options.size, beside));
  }
  PUMICE_TRY(const SessionRunners runners, usual_runners(*model, options.size, readable));
  PUMICE_TRY(MemoryNeeds needs, memory_needs(*model, runners, slices));
  add(vision, needs);
  pumice_memory_estimate result = {sizeof result};
  result.weights = needs.weights;
  result.host = needs.host;
  result.cache = needs.cache;
  result.scratch = needs.scratch + needs.state;
  result.loading = needs.loading - std::min(needs.loading, needs.session());
  result.peak = needs.peak();
  result.fits = needs.fits();
  PUMICE_TRY(result.longest_context, longest_context(*model, options.size, readable, beside));
  name_size(*model, options.size, result);
  return write(result, estimate, "estimate");
}

} // namespace

extern "C" {

pumice_status pumice_session_estimate_memory(pumice_device* device, const pumice_source* source,
                                             const pumice_load_options* load,
                                             const pumice_session_options* caller_options,
                                             pumice_memory_estimate* estimate, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_TRY(const pumice_session_options options, read(caller_options, "options"));
    const auto read_options = [&](const ModelShape& shape) { return session_options(options, shape); };
    return estimate_memory(device, source, load, read_options, &options, estimate);
  });
}

pumice_status pumice_batch_estimate_memory(pumice_device* device, const pumice_source* source,
                                           const pumice_load_options* load,
                                           const pumice_batch_options* caller_options,
                                           pumice_memory_estimate* estimate, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_TRY(const pumice_batch_options options, read(caller_options, "options"));
    const auto read_options = [&](const ModelShape& shape) { return batch_options(options, shape); };
    return estimate_memory(device, source, load, read_options, nullptr, estimate);
  });
}

} // extern "C"
