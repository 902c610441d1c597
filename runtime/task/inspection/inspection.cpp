#include "task/inspection/inspection.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "model/session_memory.h"
#include "plan/plan.h"
#include "step/runner_layout.h"
#include "tuning/sample_steps.h"

namespace pumice {

std::vector<ComponentCount> count_components(const ModelDefinition& definition) {
  std::vector<ComponentCount> components;
  for (const char* name : {"embedding", "attention", "feed-forward", "norms", "head"})
    components.push_back({name, 0});
  for (const WeightSpec& spec : definition.weights()) {
    auto found = std::find_if(components.begin(), components.end(),
                              [&](const ComponentCount& each) { return each.component == spec.component; });
    if (found == components.end()) found = components.insert(found, {spec.component, 0});
    found->parameters +=
        std::accumulate(spec.shape.begin(), spec.shape.end(), uint64_t{1}, std::multiplies<>());
  }
  return components;
}

std::vector<TypeCount> count_types(const ModelFile& file) {
  std::map<TensorType, TypeCount> types;
  for (const TensorView& tensor : file.tensors()) {
    TypeCount& type = types[tensor.type];
    type.type = info(tensor.type).name;
    ++type.tensors;
    type.bytes += tensor.data.size() + tensor.exponents.size();
  }
  std::vector<TypeCount> result;
  for (auto& [type, count] : types) result.push_back(std::move(count));
  return result;
}

std::vector<std::string> unread_tensors(const ModelDefinition& definition, const ModelFile& file) {
  std::set<std::string, std::less<>> read;
  for (const WeightSpec& spec : definition.weights()) {
    const TensorView* tensor =
        file.find(spec.name); // which a text model inside another finds under its name alone
    read.insert(tensor ? tensor->name : spec.name);
  }
  std::vector<std::string> unread;
  for (const TensorView& tensor : file.tensors()) {
    // GGUF keeps tables of the rotation's frequencies as tensors, which are settings.
    const bool setting = tensor.name.starts_with("rope_f");
    if (!setting && !read.contains(tensor.name)) unread.push_back(std::string(tensor.name));
  }
  std::ranges::copy(file.unreadable(), std::back_inserter(unread));
  return unread;
}

InspectedMemory estimate_memory(const ModelDefinition& definition, const SessionSize& size) {
  const ModelShape shape = definition.shape();
  InspectedMemory memory;
  memory.kv = to_string(size.cache);
  MemoryNeeds& needs = memory.needs;
  needs.context = size.context;
  for (const ComponentCount& each : count_components(definition)) needs.weights += each.parameters * 2;
  for (const LayerCache& layer : shape.decoder_caches())
    needs.cache += cache_layout(layer, size).key_and_value_bytes();
  for (const StateLayout& layout : state_layouts(shape, size, UINT32_MAX)) needs.cache += layout.bytes();
  if (shape.encoder) {
    SessionSize inputs = size;
    inputs.input_positions = shape.encoder->context;
    if (!shape.has_decoder()) needs.context = inputs.input_positions;
    for (const LayerCache& layer : shape.encoder->caches) {
      needs.cache += input_cache_layout(layer, inputs).key_and_value_bytes();
    }
  }
  return memory;
}

Result<InspectedMemory> planned_memory(const Model& model, const SessionSize& size, const SizeWish& wish) {
  const Capabilities& device = model.context().device->capabilities();
  InspectedMemory memory;
  PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
  PUMICE_TRY(memory.needs, memory_needs(model, runners));
  memory.kv = to_string(size.cache);
  memory.exact = true;
  memory.device = fmt::format("{} ({})", device.name, device.driver);
  PUMICE_TRY(memory.fitting, fitting_contexts(model, size));
  PUMICE_TRY(memory.fit, fitting_size(model, wish));
  return memory;
}

Result<std::string> planned_steps(const Model& model, const SessionSize& size, const Ceilings& ceilings) {
  PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
  std::optional<RunnerLayout> first;
  std::string decoder, encoder;
  for (const RunnerOptions& runner : runners) {
    PUMICE_TRY(RunnerLayout plan, lay_out_runner(model, runner, first ? &first->memory : nullptr));
    const bool encodes = runner.part == ModelPart::encoder;
    std::string& text = encodes ? encoder : decoder;
    for (const Plan& step : plan.plans) {
      text += text.empty() ? "" : "\n";
      text += encodes ? "encoder: " : model.shape().encoder ? "decoder: " : "";
      text += plan_text(step, estimate_seconds(step, ceilings), false);
    }
    if (!first) first = std::move(plan);
  }
  return encoder + (encoder.empty() || decoder.empty() ? "" : "\n") + decoder;
}

namespace {

Status add_measured(const std::shared_ptr<const Model>& model, ModelPart part, const SessionSize& size,
                    const std::string& heading, std::string& plans) {
  DirectWork work(model->context().device);
  PUMICE_TRY(SampleSteps steps, SampleSteps::create(model, part, size, work));
  for (uint32_t tokens : steps.sizes()) {
    std::vector<double> seconds;
    for (int run = 0; run < 2; ++run) { // the first one may compile
      PUMICE_CHECK(steps.write(tokens));
      PUMICE_TRY(seconds, steps.runner().time_dispatches(tokens));
    }
    PUMICE_TRY(const Plan* plan, steps.runner().plan(tokens));
    plans += (plans.empty() ? "" : "\n") + heading + plan_text(*plan, seconds, true);
  }
  return {};
}

} // namespace

Result<std::string> measured_plans(const std::shared_ptr<const Model>& model, const SessionSize& size) {
  std::string plans;
  const ModelShape& shape = model->shape();
  if (shape.encoder) {
    PUMICE_CHECK(add_measured(model, ModelPart::encoder, size, "encoder: ", plans));
  }
  if (shape.has_decoder()) {
    PUMICE_CHECK(add_measured(model, ModelPart::decoder, size, shape.encoder ? "decoder: " : "", plans));
  }
  return plans;
}

} // namespace pumice
