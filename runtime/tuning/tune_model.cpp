#include "tuning/tune_model.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "kernel/class_costs.h"
#include "model/session_memory.h"
#include "step/runner_layout.h"
#include "tuning/measured_speed.h"
#include "tuning/sample_steps.h"

namespace pumice {

namespace {

constexpr uint32_t usual_chunk = 128, longest_chunk = 512, most_sequences = 16;
constexpr uint32_t usual_context = 1024, deepest_context = 4096;

// Steps of one part of a model in sessions of one size.
struct StepSizes {
  ModelPart part = ModelPart::decoder;
  SessionSize size;
  std::vector<uint32_t> tokens;
};

// All steps to measure.
std::vector<StepSizes> steps_of(const ModelShape& shape, const TuneOptions& options) {
  std::vector<uint32_t> sizes = {1, options.chunk ? options.chunk : usual_chunk, small_chunk};
  if (options.everything) sizes.insert(sizes.end(), {usual_chunk, 4, 8, 32, 64, 256, longest_chunk});
  SessionSize size;
  size.context =
      std::min(shape.context, options.context ? std::min(options.context, deepest_context) : usual_context);
  size.chunk = std::ranges::max(sizes);
  size.cache = options.cache;
  std::vector<StepSizes> all;
  if (shape.has_decoder()) {
    all.push_back({ModelPart::decoder, size, sizes});
    for (uint32_t& tokens : all.back().tokens) tokens = std::min(tokens, size.context);
  }
  if (shape.has_decoder() && options.everything) {
    SessionSize several = size;
    several.context = std::min(shape.context, usual_chunk);
    several.sequences = several.chunk = most_sequences;
    all.push_back({ModelPart::decoder, several, {4, 8, most_sequences}});
  }
  if (shape.encoder) {
    const uint32_t longest = shape.encoder->context;
    if (shape.encoder->of_one_length()) sizes = {longest};
    std::erase_if(sizes, [&](uint32_t tokens) { return tokens > longest; });
    size.chunk = longest;
    all.push_back({ModelPart::encoder, size, sizes});
  }
  for (StepSizes& steps : all) {
    std::set<uint32_t> seen;
    std::erase_if(steps.tokens, [&](uint32_t tokens) { return !seen.insert(tokens).second; });
  }
  return all;
}

Status measure_steps(Tuner& tuner, const std::shared_ptr<const Model>& model, const StepSizes& sizes,
                     DeviceWork& work) {
  PUMICE_TRY(SampleSteps steps, SampleSteps::create(model, sizes.part, sizes.size, work));
  const Runner& runner = steps.runner();
  const auto plan_of = [&](uint32_t tokens) -> Tuner::PlanMaker {
    return [&runner, bucket = Bucket{tokens, steps.outputs(tokens)}](const DeviceProfile& profile) {
      return runner.plan_in(profile, bucket);
    };
  };
  for (uint32_t tokens : sizes.tokens) PUMICE_CHECK(tuner.expect(plan_of(tokens)));
  for (uint32_t tokens : sizes.tokens) {
    PUMICE_CHECK(steps.write(tokens));
    PUMICE_CHECK(tuner.measure(plan_of(tokens),
                               [&](const BufferRef& ref) -> const Buffer& { return runner.buffer(ref); }));
  }
  return {};
}

Status measure_all(Tuner& tuner, const std::shared_ptr<const Model>& model, const TuneOptions& options) {
  for (const StepSizes& sizes : steps_of(model->shape(), options)) {
    PUMICE_CHECK(measure_steps(tuner, model, sizes, *options.work));
  }
  return {};
}

// Whether the tuner would measure something for these steps, which have one output.
Result<bool> unknown_steps(const Tuner& tuner, const Model& model, const StepSizes& sizes) {
  RunnerOptions options;
  options.part = sizes.part;
  options.sampling = sizes.part == ModelPart::decoder;
  options.size = sizes.size;
  PUMICE_TRY(const RunnerLayout layout, lay_out_runner(model, options, nullptr));
  PlanContext context = layout.memory.plan_context(model.context(), model.weights());
  context.profile = tuner.profile();
  for (uint32_t tokens : sizes.tokens) {
    PUMICE_TRY(const Plan plan, make_plan(layout.graph, context, Bucket{tokens, 1}));
    if (!tuner.knows(plan)) return true;
  }
  return false;
}

} // namespace

Result<Tuning> tune_model(const std::shared_ptr<const Model>& model, const TuneOptions& given) {
  TuneOptions options = given;
  if (!options.work) options.work = std::make_shared<DirectWork>(model->context().device);
  Tuner tuner(model->context(), options);
  const Status status = measure_all(tuner, model, options);
  const bool kept = options.keep_cancelled && !status.ok() && status.error().code == Code::cancelled;
  if (!status.ok() && !kept) return status.error();
  Tuning tuning = tuner.result();
  tuning.speed = measured_speed(tuning.classes, model->context().profile.speed);
  tuning.complete = tuning.complete && status.ok();
  return tuning;
}

Result<bool> needs_tuning(const Model& model, const TuneOptions& options) {
  const Tuner tuner(model.context(), options);
  for (const StepSizes& sizes : steps_of(model.shape(), options)) {
    PUMICE_TRY(const bool unknown, unknown_steps(tuner, model, sizes));
    if (unknown) return true;
  }
  return false;
}

void keep_tuning(const Tuning& tuning, Pipelines& pipelines,
                 const std::function<void(const std::string&)>& note) {
  Choices choices;
  Blocklist blocklist;
  std::set<std::string> allowed;
  std::map<std::string, ClassCost> costs;
  const Blocklist before = stored_blocklist(pipelines);
  for (const TunedClass& tuned : tuning.classes) {
    choices[tuned.shape_class] = tuned.winner;
    for (const VariantResult& each : tuned.variants) {
      if (each.variant == tuned.winner) costs[tuned.shape_class] = {each.flops, each.bytes, each.seconds};
      const std::string key = blocklist_key(tuned.shape_class, each.variant);
      const auto blocked = tuning.blocklist.find(key);
      if (blocked == tuning.blocklist.end()) {
        allowed.insert(key);
        continue;
      }
      const bool known = !blocklist.insert(*blocked).second || before.contains(key);
      if (!known) note(blocked_text(key, blocked->second));
    }
  }
  // Dangerous variants are in no class that was measured.
  for (const auto& [key, blocked] : tuning.blocklist) {
    if (!blocked.dangerous || before.contains(key)) continue;
    blocklist[key] = blocked;
    allowed.erase(key);
    note(blocked_text(key, blocked));
  }
  store_choices(pipelines, choices, blocklist, allowed);
  store_costs(pipelines, costs);
  if (tuning.speed) store_speed(pipelines, *tuning.speed);
}

} // namespace pumice
