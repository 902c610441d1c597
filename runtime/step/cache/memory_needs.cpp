#include "step/cache/memory_needs.h"

#include <algorithm>

#include "step/encoder.h"
#include "step/runner_layout.h"

namespace pumice {

Result<SessionRunners> usual_runners(const Model& model, const SessionSize& size,
                                     std::vector<std::string> readable) {
  const ModelShape& shape = model.shape();
  SessionRunners runners;
  if (shape.has_decoder()) {
    RunnerOptions decoder;
    decoder.size = size;
    decoder.readable = std::move(readable);
    readable.clear();
    runners.push_back(std::move(decoder));
  }
  if (shape.encoder) {
    EncoderOptions options;
    options.cache = size.cache;
    options.readable = std::move(readable);
    // The context of an encoder is the tokens of its input.
    if (!shape.has_decoder() && shape.encoder->kind == InputKind::tokens) options.tokens = size.context;
    PUMICE_TRY(RunnerOptions encoder, Encoder::runner_options(model, std::move(options)));
    if (shape.has_decoder() && size.input_positions == 0) {
      runners[0].size.input_positions = encoder.size.input_positions;
    }
    runners.push_back(std::move(encoder));
  }
  return runners;
}

SessionRunners stage_runners(const Model& model, SessionRunners runners) {
  if (model.shape().has_decoder()) {
    if (!model.last_stage()) runners[0].sampling = false;
    if (!model.decodes()) runners.erase(runners.begin());
  }
  return runners;
}

Result<MemoryNeeds> memory_needs(const Model& model, const SessionRunners& runners, uint64_t others) {
  const Device& device = *model.context().device;
  MemoryNeeds needs;
  needs.state = others;
  needs.weights = model.weight_bytes();
  needs.host = model.host_weight_bytes();
  needs.loading = model.loading_bytes();
  needs.available = device.memory().available + (model.loaded() ? needs.weights : 0);
  std::vector<RunnerLayout> plans;
  for (const RunnerOptions& runner : runners) {
    PUMICE_TRY(RunnerLayout plan, lay_out_runner(model, runner, plans.empty() ? nullptr : &plans[0].memory));
    PUMICE_TRY(const RunnerBytes bytes, runner_bytes(device, plan));
    needs.cache += bytes.cache;
    needs.scratch += bytes.scratch;
    needs.state += bytes.state;
    plans.push_back(std::move(plan));
  }
  if (!plans.empty()) {
    const SessionSize& size = plans[0].memory.size;
    needs.context = model.shape().has_decoder() ? size.context : size.chunk;
  }
  return needs;
}

Result<uint32_t> longest_context(uint32_t longest,
                                 const std::function<Result<bool>(uint32_t context)>& fits) {
  uint32_t fitting = 0, too_long = longest + 1;
  while (fitting + 1 < too_long) {
    // The longest context first, because most programs ask for it.
    const bool first = too_long == longest + 1 && fitting == 0;
    const uint32_t context = first ? longest : fitting + (too_long - fitting) / 2;
    const Result<bool> fit = fits(context);
    const bool too_large =
        !fit.ok() && (fit.error().code == Code::unsupported || fit.error().code == Code::out_of_memory);
    if (!fit.ok() && !too_large) return fit.error();
    (!too_large && *fit ? fitting : too_long) = context;
  }
  return fitting;
}

Result<uint32_t> longest_context(const Model& model, uint32_t longest,
                                 const std::function<Result<SessionRunners>(uint32_t context)>& runners,
                                 uint64_t others) {
  return longest_context(longest, [&](uint32_t context) -> Result<bool> {
    PUMICE_TRY(const SessionRunners session, runners(context));
    PUMICE_TRY(const MemoryNeeds needs, memory_needs(model, session, others));
    return needs.fits();
  });
}

Result<uint32_t> longest_context(const Model& model, SessionSize size,
                                 const std::vector<std::string>& readable, uint64_t others) {
  const ModelShape& shape = model.shape();
  const uint32_t longest = shape.has_decoder() ? shape.context : shape.encoder->context;
  const auto runners = [&](uint32_t context) {
    size.context = context;
    return usual_runners(model, size, readable);
  };
  return longest_context(model, longest, runners, others);
}

} // namespace pumice
