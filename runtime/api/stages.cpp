#include "api/stages.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/call.h"
#include "api/tune.h"
#include "kernel/probe/probe.h"
#include "model/vocabulary.h"
#include "stage/local_stages.h"

namespace pumice::api {

namespace {

constexpr uint32_t most_stages = 64;

Error wrong(const std::string& what) {
  return {Code::invalid_argument, what};
}

Status check_layers(const std::vector<uint32_t>& layers) {
  const auto none = std::ranges::find(layers, 0u);
  if (none == layers.end() || std::ranges::all_of(layers, [](uint32_t each) { return each == 0; })) return {};
  return wrong(fmt::format("options.stages[{}].layers is 0: expected 1 or more, or 0 in all stages",
                           none - layers.begin()));
}

// Each stage counts its own bytes: as one number, of those of the whole model.
class StageProgress {
public:
  StageProgress(const Progress& progress, uint64_t total) : progress_(progress), total_(total) {}

  bool operator()(uint64_t done, uint64_t of_stage) {
    if (done < last_done_) before_ += last_of_stage_;
    last_done_ = done;
    last_of_stage_ = of_stage;
    return progress_(std::min(before_ + done, total_), total_);
  }

private:
  const Progress& progress_;
  const uint64_t total_;
  uint64_t before_ = 0, last_done_ = 0, last_of_stage_ = 0;
};

struct Cut {
  std::vector<uint32_t> layers; // of each stage
  std::vector<Stage> stages;
};

Result<Cut> cut_of(const StageList& stages, const pumice_source* source) {
  PUMICE_TRY(const ModelFile file, open_source(source, {}, true));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (!shape.has_decoder()) {
    return Error{Code::unsupported,
                 fmt::format("{}: options.stages need a decoder: a model of the architecture '{}' has none",
                             file.path(), file.architecture())};
  }
  Cut cut;
  cut.layers = stages.layers;
  if (cut.layers.front() == 0) {
    PUMICE_TRY(cut.layers, even_split(file.path(), shape, static_cast<uint32_t>(stages.devices.size())));
  }
  PUMICE_TRY(cut.stages, stages_of(file.path(), shape, cut.layers));
  return cut;
}

DeviceContext context_of(const pumice_device& device) {
  DeviceContext context = device.context;
  context.profile = with_tuning_results(device.context.profile, *device.context.pipelines);
  return context;
}

} // namespace

Result<StageList> read_stages(const pumice_load_options& options, const pumice_device& device) {
  StageList list;
  if (!options.stages && options.stage_count == 0) return list;
  PUMICE_CHECK(check_array(options.stages, options.stage_count, sizeof *options.stages, "options.stages"));
  if (options.stage_count == 0 || options.stage_count > most_stages) {
    return wrong(
        fmt::format("options.stage_count is {}: expected 1 to {}", options.stage_count, most_stages));
  }
  if (options.pictures || options.vision || options.mmproj) {
    return Error{Code::unsupported,
                 "options has stages, and pictures, vision or mmproj: a model that sees takes one device"};
  }
  for (uint32_t i = 0; i < options.stage_count; ++i) {
    PUMICE_CHECK(check_live(options.stages[i].device, fmt::format("options.stages[{}].device", i).c_str()));
    list.devices.push_back(*options.stages[i].device);
    list.layers.push_back(options.stages[i].layers);
  }
  PUMICE_CHECK(check_layers(list.layers));
  if (list.devices.back().context.device == device.context.device) return list;
  return wrong(fmt::format("options.stages[{}].device is another one than the model is loaded on: the last "
                           "stage is on that device",
                           options.stage_count - 1));
}

Result<std::vector<std::shared_ptr<const Model>>>
plan_stages(const StageList& stages, const pumice_source* source, const LoadOptions& options) {
  PUMICE_TRY(const Cut cut, cut_of(stages, source));
  std::vector<std::shared_ptr<const Model>> models;
  for (size_t i = 0; i < stages.devices.size(); ++i) {
    LoadOptions stage_options = options;
    stage_options.stage = cut.stages[i];
    PUMICE_TRY(ModelFile file, open_source(source, {}, true));
    PUMICE_TRY(std::shared_ptr<const Model> model,
               Model::plan(std::move(file), context_of(stages.devices[i]), stage_options));
    models.push_back(std::move(model));
  }
  return models;
}

Result<std::shared_ptr<const Model>> load_stages(const StageList& stages, const pumice_source* source,
                                                 const LoadOptions& options, const Progress& progress) {
  PUMICE_TRY(const Cut cut, cut_of(stages, source));
  PUMICE_TRY(ModelFile file, open_source(source, {}, true));
  PUMICE_TRY(const std::shared_ptr<const Model> whole,
             Model::plan(std::move(file), stages.devices.back().context, options));
  std::vector<DeviceContext> contexts;
  for (const pumice_device& each : stages.devices) contexts.push_back(context_of(each));
  LocalStagesOptions local;
  local.many_threads = true;
  const auto open = [&] { return open_source(source, {}, false); };
  const auto counted = std::make_shared<StageProgress>(progress, whole->weight_bytes());
  const auto report = [counted](uint64_t done, uint64_t total) { return (*counted)(done, total); };
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_in_stages(open, contexts, cut.layers, options, report, local));
  for (const pumice_device& each : stages.devices) save_pipelines(each.context, *each.log);
  return model;
}

Status check_one_device(const Model& model, const char* user) {
  if (!model.upstream()) return {};
  return Error{Code::unsupported,
               fmt::format("{}: the model is in stages: {} takes one device", model.file().path(), user)};
}

} // namespace pumice::api
