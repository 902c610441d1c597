#include "step/runner_layout.h"

#include <algorithm>

#include <fmt/format.h>

#include "graph/cut.h"

namespace pumice {

namespace {

Status check_size(const Model& model, const RunnerOptions& options) {
  const SessionSize& size = options.size;
  if (size.sequences == 0) {
    return Error{Code::invalid_argument, "a session for 0 sequences cannot be made: it needs at least 1"};
  }
  const uint32_t longest = model.shape().context;
  if (options.part == ModelPart::decoder && size.context > longest) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: a context of {} tokens was asked for, and the model was "
                             "made for {}: ask for a shorter one",
                             model.file().path(), size.context, longest)};
  }
  return {};
}

Status check_reach(const Model& model, const SessionMemory& memory) {
  const uint64_t limit = model.context().capabilities().max_storage_range_bytes;
  for (size_t layer = 0; layer < memory.caches.size(); ++layer) {
    const uint64_t bytes = memory.caches[layer].keys.bytes;
    if (bytes <= limit) continue;
    const bool of_decoder = layer < model.shape().decoder_caches().size(); // and not of the encoder's inputs
    return Error{
        Code::unsupported,
        fmt::format(
            "{}: {} take {} bytes of keys for layer {}, which cannot be divided into the {} that this "
            "device's kernels can reach: {}",
            model.file().path(),
            of_decoder ? fmt::format("{} sequences of {} tokens", memory.size.sequences, memory.size.context)
                       : fmt::format("inputs of {} positions", memory.size.input_positions),
            bytes, layer, limit,
            of_decoder ? "ask for fewer sequences or a shorter context" : "ask for fewer inputs at a time")};
  }
  return {};
}

Status check_adapters(const Model& model, const RunnerOptions& options) {
  if (!options.adapters) return {};
  const bool whole = model.stage().whole(model.shape().layers_to_cut());
  if (options.part == ModelPart::decoder && whole && options.adapters->places > 0) return {};
  return Error{Code::unsupported,
               fmt::format("{}: adapters are for the decoder of a model on one device", model.file().path())};
}

Result<Graph> graph_of(const Model& model, const RunnerOptions& options, const SessionSize& size) {
  const ModelShape& shape = model.shape();
  GraphRequest request;
  request.sampling = options.sampling;
  request.readable = options.readable;
  request.context = size.context;
  request.adapters = options.adapters;
  request.input_context = std::min(shape.encoder ? shape.encoder->context : 0, size.input_positions);
  if (shape.encoder && shape.encoder->any_length) request.input_context = size.input_positions;
  return options.part == ModelPart::encoder ? model.encoder_graph(request) : model.graph(request);
}

} // namespace

Result<RunnerLayout> lay_out_runner(const Model& model, const RunnerOptions& options,
                                    const SessionMemory* shared) {
  PUMICE_CHECK(check_size(model, options));
  PUMICE_CHECK(check_adapters(model, options));
  const ModelShape& shape = model.shape();
  const bool encodes = options.part == ModelPart::encoder;
  RunnerLayout layout;
  layout.own_caches = !shared;
  layout.memory = shared ? *shared : model.lay_out_memory(options.size);
  if (encodes) layout.memory = layout.memory.with_steps(options.size.chunk, options.size.sequences);
  PUMICE_CHECK(check_reach(model, layout.memory));
  PUMICE_TRY(layout.graph, graph_of(model, options, layout.memory.size));
  if (encodes && !options.readable.empty()) drop_unread_outputs(layout.graph); // such as those of a pooler
  if (options.adapters) {
    layout.adapters = AdapterMemory::of(layout.graph, options.adapters->places);
    layout.memory.step_layout.has_adapters = true;
    layout.memory.step.bytes = layout.memory.step_layout.bytes();
  }
  const PlanContext context = layout.memory.plan_context(model.context(), model.weights());
  for (const Bucket& bucket : encodes ? encoder_buckets(*shape.encoder, layout.memory.size)
                                      : step_buckets(layout.memory.size, options.all_outputs)) {
    PUMICE_TRY(Plan step, make_plan(layout.graph, context, bucket));
    layout.scratch_bytes = std::max(layout.scratch_bytes, step.scratch_bytes);
    layout.output_bytes = std::max(layout.output_bytes, step.output_bytes);
    layout.input_bytes = std::max(layout.input_bytes, step.input_bytes);
    layout.plans.push_back(std::move(step));
  }
  return layout;
}

Result<RunnerBytes> runner_bytes(const Device& device, const RunnerLayout& layout) {
  RunnerBytes sum;
  const auto add = [&](uint64_t& to, uint64_t bytes) -> Status {
    PUMICE_TRY(const uint64_t needed, Buffer::memory_needed(device, bytes));
    to += needed;
    return {};
  };
  if (layout.own_caches) {
    for (uint64_t bytes : layout.memory.cache_allocation_bytes) PUMICE_CHECK(add(sum.cache, bytes));
  }
  PUMICE_CHECK(add(sum.scratch, layout.scratch_bytes));
  for (uint64_t bytes : layout.adapters.allocation_bytes) PUMICE_CHECK(add(sum.scratch, bytes));
  if (layout.input_bytes) PUMICE_CHECK(add(sum.scratch, layout.input_bytes));
  if (layout.output_bytes) {
    PUMICE_TRY(const uint64_t outputs, PlanOutputs::memory_needed(device, layout.output_bytes));
    sum.scratch += outputs;
  }
  const SessionMemory& memory = layout.memory;
  PUMICE_CHECK(add(sum.state, memory.step_layout.bytes_with_counters()));
  PUMICE_CHECK(add(sum.state, StepRing::bytes(memory.step_layout)));
  PUMICE_CHECK(add(sum.state, memory.sampling.bytes));
  return sum;
}

} // namespace pumice
