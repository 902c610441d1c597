#include "step/runner_layout.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice {

namespace {

Status check_size(const Model& model, const RunnerOptions& options) {
  const SessionSize& size = options.size;
  if (size.sequences == 0) {
    return Error{Code::invalid_argument, "a session of 0 sequences: expected at least one"};
  }
  const uint32_t longest = model.shape().context;
  if (options.part == ModelPart::decoder && size.context > longest) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a context of {} tokens was asked for, and the model was "
                             "made for {}",
                             model.file().path(), size.context, longest)};
  }
  return {};
}

Status check_reach(const Model& model, const SessionMemory& memory) {
  const uint64_t limit = model.context().device->capabilities().max_storage_range_bytes;
  for (size_t layer = 0; layer < memory.caches.size(); ++layer) {
    const uint64_t bytes = memory.caches[layer].keys.bytes;
    if (bytes <= limit) continue;
    return Error{Code::unsupported,
                 fmt::format("{}: a context of {} tokens takes {} bytes of keys for layer {}, and this "
                             "device's kernels can reach {}: ask for a shorter one",
                             model.file().path(), memory.size.context, bytes, layer, limit)};
  }
  return {};
}

Result<Graph> graph_of(const Model& model, const RunnerOptions& options, const SessionSize& size) {
  const ModelShape& shape = model.shape();
  GraphRequest request;
  request.sampling = options.sampling;
  request.kept = options.kept;
  request.context = size.context;
  request.input_context = std::min(shape.encoder ? shape.encoder->context : 0, size.input_positions);
  if (shape.encoder && shape.encoder->any_length) request.input_context = size.input_positions;
  return options.part == ModelPart::encoder ? model.encoder_graph(request) : model.graph(request);
}

} // namespace

Result<RunnerLayout> lay_out_runner(const Model& model, const RunnerOptions& options,
                                    const SessionMemory* shared) {
  PUMICE_CHECK(check_size(model, options));
  const ModelShape& shape = model.shape();
  const bool encodes = options.part == ModelPart::encoder;
  RunnerLayout plan;
  plan.own_caches = !shared;
  plan.memory = shared ? *shared : plan_memory(shape, model.context(), options.size);
  if (encodes) plan.memory = plan.memory.with_steps(options.size.chunk, options.size.sequences);
  PUMICE_CHECK(check_reach(model, plan.memory));
  PUMICE_TRY(plan.graph, graph_of(model, options, plan.memory.size));
  const PlanContext context = plan.memory.plan_context(model.context(), model.weights());
  for (const Bucket& bucket : encodes ? encoder_buckets(*shape.encoder, plan.memory.size)
                                      : step_buckets(plan.memory.size, options.all_outputs)) {
    PUMICE_TRY(Plan step, make_plan(plan.graph, context, bucket));
    plan.scratch_bytes = std::max(plan.scratch_bytes, step.scratch_bytes);
    plan.output_bytes = std::max(plan.output_bytes, step.output_bytes);
    if (step.input) plan.input_bytes = std::max(plan.input_bytes, step.input->where.buffer.bytes);
    plan.plans.push_back(std::move(step));
  }
  return plan;
}

Result<RunnerBytes> runner_bytes(const Device& device, const RunnerLayout& plan) {
  RunnerBytes sum;
  const auto add = [&](uint64_t& to, uint64_t bytes) -> Status {
    PUMICE_TRY(const uint64_t needed, Buffer::memory_needed(device, bytes));
    to += needed;
    return {};
  };
  if (plan.own_caches) {
    for (uint64_t part : plan.memory.cache_allocation_bytes) PUMICE_CHECK(add(sum.cache, part));
  }
  PUMICE_CHECK(add(sum.scratch, plan.scratch_bytes));
  for (uint64_t bytes : {plan.input_bytes, plan.output_bytes}) {
    if (bytes) PUMICE_CHECK(add(sum.scratch, bytes));
  }
  const SessionMemory& memory = plan.memory;
  PUMICE_CHECK(add(sum.state, memory.step.bytes));
  PUMICE_CHECK(add(sum.state, StepRing::places * StepRing::place_bytes(memory.step_layout)));
  PUMICE_CHECK(add(sum.state, memory.sampling.bytes));
  return sum;
}

} // namespace pumice
