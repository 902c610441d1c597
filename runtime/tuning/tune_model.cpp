#include "tuning/tune_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/session_memory.h"
#include "tuning/measured_speed.h"
#include "tuning/sample_steps.h"

namespace pumice {

namespace {

constexpr uint32_t usual_chunk = 128, longest_chunk = 512, most_sequences = 16;
constexpr uint32_t deepest_context = 1024;

Status measure_steps(Tuner& tuner, const std::shared_ptr<const Model>& model, ModelPart part,
                     SessionSize size, std::span<const uint32_t> sizes, DeviceWork& work) {
  PUMICE_TRY(SampleSteps steps, SampleSteps::create(model, part, size, work));
  const Runner& runner = steps.runner();
  const auto plan_of = [&](uint32_t tokens) -> Tuner::PlanMaker {
    return [&runner, bucket = Bucket{tokens, steps.outputs(tokens)}](const DeviceProfile& profile) {
      return runner.plan_in(profile, bucket);
    };
  };
  std::vector<uint32_t> fitting;
  for (uint32_t tokens : sizes) {
    if (steps.fits(tokens) && !std::ranges::count(fitting, tokens)) fitting.push_back(tokens);
  }
  for (uint32_t tokens : fitting) PUMICE_CHECK(tuner.expect(plan_of(tokens)));
  for (uint32_t tokens : fitting) {
    PUMICE_CHECK(steps.write(tokens));
    PUMICE_CHECK(tuner.measure(plan_of(tokens),
                               [&](const BufferRef& ref) -> const Buffer& { return runner.buffer(ref); }));
  }
  return {};
}

Status measure_all(Tuner& tuner, const std::shared_ptr<const Model>& model, const TuneOptions& options) {
  const ModelShape& shape = model->shape();
  DeviceWork& work = *options.work;
  const uint32_t chunk = options.chunk ? options.chunk : usual_chunk;
  std::vector<uint32_t> sizes = {1, chunk, small_chunk};
  if (options.everything) sizes.insert(sizes.end(), {usual_chunk, 4, 8, 32, 64, 256, longest_chunk});
  SessionSize size;
  size.context = std::min(shape.context, options.context ? options.context : deepest_context);
  size.chunk = std::ranges::max(sizes);
  size.cache = options.cache;
  if (shape.has_decoder()) {
    PUMICE_CHECK(measure_steps(tuner, model, ModelPart::decoder, size, sizes, work));
  }
  if (shape.has_decoder() && options.everything) {
    SessionSize several = size;
    several.context = std::min(shape.context, usual_chunk);
    several.sequences = several.chunk = most_sequences;
    const uint32_t steps[] = {4, 8, most_sequences};
    PUMICE_CHECK(measure_steps(tuner, model, ModelPart::decoder, several, steps, work));
  }
  if (shape.encoder) {
    if (shape.encoder->kind != InputKind::tokens) sizes = {shape.encoder->context};
    PUMICE_CHECK(measure_steps(tuner, model, ModelPart::encoder, size, sizes, work));
  }
  return {};
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

void keep_tuning(const Tuning& tuning, Pipelines& pipelines,
                 const std::function<void(const std::string&)>& note) {
  Choices choices;
  Blocklist blocklist;
  std::set<std::string> allowed;
  const Blocklist before = stored_blocklist(pipelines);
  for (const TunedClass& tuned : tuning.classes) {
    choices[tuned.shape_class] = tuned.winner;
    for (const VariantResult& each : tuned.variants) {
      const std::string key = blocklist_key(tuned.shape_class, each.variant);
      const auto blocked = tuning.blocklist.find(key);
      if (blocked == tuning.blocklist.end()) {
        allowed.insert(key);
        continue;
      }
      const bool known = !blocklist.insert(*blocked).second || before.contains(key);
      if (!known) note(fmt::format("the kernel variant '{}' is not used: {}", key, blocked->second));
    }
  }
  store_choices(pipelines, choices, blocklist, allowed);
  if (tuning.speed) store_speed(pipelines, *tuning.speed);
}

} // namespace pumice
