#include "tuning/tune_model.h"

#include <algorithm>

#include "tuning/sample_steps.h"

namespace pumice {

namespace {

constexpr uint32_t usual_chunk = 128, longest_chunk = 512, most_sequences = 16;
constexpr uint32_t deepest_context = 1024;

Status measure_steps(Tuner& tuner, const std::shared_ptr<const Model>& model, ModelPart part,
                     SessionSize size, std::span<const uint32_t> sizes) {
  PUMICE_TRY(SampleSteps steps, SampleSteps::create(model, part, size));
  const Runner& runner = steps.runner();
  for (uint32_t tokens : sizes) {
    if (!steps.fits(tokens)) continue;
    PUMICE_CHECK(steps.write(tokens));
    const Bucket bucket{tokens, steps.outputs(tokens)};
    PUMICE_CHECK(tuner.measure([&](const DeviceProfile& profile) { return runner.plan_in(profile, bucket); },
                               [&](const BufferRef& ref) -> const Buffer& { return runner.buffer(ref); }));
  }
  return {};
}

Status measure_all(Tuner& tuner, const std::shared_ptr<const Model>& model, const TuneOptions& options) {
  const ModelShape& shape = model->shape();
  std::vector<uint32_t> sizes = {1, usual_chunk, 16};
  if (options.everything) sizes = {1, usual_chunk, 16, 4, 8, 32, 64, 256, longest_chunk};
  SessionSize size;
  size.context = std::min(shape.context, deepest_context);
  size.chunk = std::ranges::max(sizes);
  if (shape.has_decoder()) {
    PUMICE_CHECK(measure_steps(tuner, model, ModelPart::decoder, size, sizes));
  }
  if (shape.has_decoder() && options.everything) {
    SessionSize several = size;
    several.context = std::min(shape.context, usual_chunk);
    several.sequences = several.chunk = most_sequences;
    const uint32_t steps[] = {4, 8, most_sequences};
    PUMICE_CHECK(measure_steps(tuner, model, ModelPart::decoder, several, steps));
  }
  if (shape.encoder) {
    if (shape.encoder->kind != InputKind::tokens) sizes = {shape.encoder->context};
    PUMICE_CHECK(measure_steps(tuner, model, ModelPart::encoder, size, sizes));
  }
  return {};
}

} // namespace

Result<Tuning> tune_model(const std::shared_ptr<const Model>& model, const TuneOptions& options) {
  Tuner tuner(model->context(), options);
  const Status status = measure_all(tuner, model, options);
  const bool kept = options.keep_cancelled && !status.ok() && status.error().code == Code::cancelled;
  if (!status.ok() && !kept) return status.error();
  Tuning tuning = tuner.result();
  tuning.complete = tuning.complete && status.ok();
  return tuning;
}

} // namespace pumice
